// What a real run's measured steps answer.
#include <signal.h>

#include <QFile>
#include <QTest>
#include <cmath>

#include "tests/app/cli/cli_runner.h"

using namespace lockstep;
using namespace lockstep::test;

class CliWhatIfTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  // A rank that is suspended for most of the run: without it, the run is faster.
  void aRunIsReplayedWithoutItsSlowRank() {
    const Cli cli;
    const auto process = cli.start(training("multi-worker-mirrored", "3", kEndless));
    QByteArray out;
    QVERIFY(cli.awaitEvent(*process, "step", out));
    const QString run = runOf(out);
    constexpr int kSlow = 1;
    const pid_t slow = workerOf(cli, run, kSlow);
    QVERIFY(slow > 0);
    // Some steps at a time, of which each is told of every 50th, until there are enough to replay.
    for (int told = 0, i = 0; i < 20 || told < 10; ++i) {
      QVERIFY2(i < 1000, out.right(3000));
      ::kill(slow, SIGSTOP);
      QTest::qWait(250);
      ::kill(slow, SIGCONT);
      QTest::qWait(30);
      out += process->readAllStandardOutput();
      told = static_cast<int>(out.count("{\"event\":\"step\""));
    }
    const CliResult result = cli.stop(*process, out);
    QVERIFY2(result.exit == 130, result.text());
    const CliResult shown = cli.run({"whatif", run, "--json"});
    QVERIFY2(shown.exit == 0 && shown.onlyJson, shown.text());
    const QJsonObject replay = shown.first("replay");
    const double measured = replay["measured_seconds"].toDouble();
    QVERIFY2(measured > 0 && replay["sampled"].toInt() > 0 && replay["steps"].toInt() > 100,
             shown.text());
    const auto answers = shown.all("whatif");
    QCOMPARE(answers.size(), qsizetype{4});  // each rank, and an ideal network
    for (const QJsonObject& answer : answers)
      QVERIFY2(answer["step_seconds"].toDouble() > 0, shown.text());
    QVERIFY2(answers[kSlow]["step_seconds"].toDouble() < 0.9 * measured, shown.text());
    const CliResult asked =
        cli.run({"whatif", run, "--without", QString::number(kSlow), "--ideal-network"});
    QVERIFY2(asked.exit == 0 && asked.out.contains("as fast as its peers, an ideal network") &&
                 asked.out.contains("error: "),
             asked.text());
    const CliResult anew =
        cli.run({"whatif", run, "--with", "ranks=4", "--with", "training.batch=64", "--json"});
    QVERIFY2(anew.exit == 0 && anew.onlyJson, anew.text());
    QCOMPARE(anew.first("whatif")["ranks"].toInt(), 4);
    QVERIFY(anew.first("whatif")["step_seconds"].toDouble() > 0);
    strategiesAreSought(cli, run);
    refusals(cli, run);
  }

  // The predicted step, before anything runs.
  void aLaunchIsAskedBefore() {
    const Cli cli;
    const QStringList asked{"whatif", example("fashion-mlp"), "--local", "3",
                            "--set",  "training.batch=96"};
    const CliResult shown = cli.run(asked + QStringList{"--json"});
    QVERIFY2(shown.exit == 0 && shown.onlyJson, shown.text());
    const CliResult planned = cli.run(
        {"plan", example("fashion-mlp"), "--local", "3", "--set", "training.batch=96", "--json"});
    const double predicted = shown.first("predicted")["step_seconds"].toDouble();
    const double ofPlan = planned.first("plan")["prediction"].toObject()["step_seconds"].toDouble();
    QVERIFY2(predicted > 0 && std::abs(predicted / ofPlan - 1) < 1e-3, shown.text());
    QCOMPARE(shown.all("whatif").size(), qsizetype{1});  // an ideal network
    const QJsonObject ideal = shown.first("whatif");
    QVERIFY2(ideal["step_seconds"].toDouble() < predicted && !ideal.contains("error"),
             shown.text());
    const CliResult anew =
        cli.run(asked + QStringList{"--with", "ranks=6", "--with", "training.batch=960", "--json"});
    QVERIFY2(anew.exit == 0 && anew.onlyJson, anew.text());
    QCOMPARE(anew.first("whatif")["ranks"].toInt(), 6);
    QVERIFY2(anew.first("whatif")["step_seconds"].toDouble() > predicted, anew.text());
    const CliResult text = cli.run(asked + QStringList{"--ideal-network"});
    QVERIFY2(text.exit == 0 && text.out.contains("predicted") &&
                 text.out.contains("an ideal network") && text.out.contains("--measure"),
             text.text());
    for (const auto& [words, why] : std::initializer_list<std::pair<QStringList, const char*>>{
             {{"--last", "10"}, "--last is of a run"},
             {{"--without", "3"}, "there is no rank 3"},
             {{"--no-bubble"}, "not a pipeline"}}) {
      const CliResult refused = cli.run(asked + words);
      QVERIFY2(refused.exit == 2 && refused.err.contains(why), refused.text());
    }
    QVERIFY(cli.agents().isEmpty());
  }

  void whatCannotBeReplayedIsSaid() {
    const Cli cli;
    const CliResult shortRun =
        cli.run({"run", example("fashion-mlp"), "--json", "--local", "1", "--set",
                 "training.max_steps=20", "--set", "training.epochs=1"});
    QVERIFY2(shortRun.exit == 0, shortRun.text());
    const QString run = shortRun.first("started")["run"].toString();
    const CliResult shown = cli.run({"whatif", run});
    QVERIFY2(shown.exit != 0 && shown.err.contains("lockstep profile"), shown.text());
    const CliResult unknown = cli.run({"whatif", "nothing"});
    QVERIFY2(unknown.exit == 2 && !unknown.err.contains("--local N"), unknown.text());
    for (const QString& spec : {example("fashion-mlp"), QString("fashion-mlp")}) {
      const CliResult nowhere = cli.run({"whatif", spec});
      QVERIFY2(nowhere.exit == 2 && nowhere.err.contains("--local N"), nowhere.text());
    }
  }

 private:
  // 0: there is none.
  static pid_t workerOf(const Cli& cli, const QString& run, int rank) {
    for (const qint64 pid : cli.workers(run)) {
      QFile environment(QString("/proc/%1/environ").arg(pid));
      if (environment.open(QIODevice::ReadOnly) &&
          environment.readAll().split('\0').contains("LOCKSTEP_RANK=" + QByteArray::number(rank)))
        return static_cast<pid_t>(pid);
    }
    return 0;
  }

  // For the nodes as the run measured them; its last checkpoint is resumed with the best one.
  static void strategiesAreSought(const Cli& cli, const QString& run) {
    const CliResult found = cli.run({"advise", "--run", run, "--seconds", "2", "--json"});
    QVERIFY2(found.exit == 0 && found.onlyJson, found.text());
    const QJsonObject advice = found.first("advice");
    QCOMPARE(advice["run"].toString(), run);
    QVERIFY2(advice["error"].isDouble(), found.text());
    QVERIFY2(advice["command"].toString().startsWith("lockstep resume " + run), found.text());
    QVERIFY2(found.first("candidate")["step_seconds"].toDouble() > 0, found.text());
    for (const auto& [words, text] : std::initializer_list<std::pair<QStringList, const char*>>{
             {{"advise"}, "a spec is missing"},
             {{"advise", "--run", run, "--local", "2"}, "leave --local out"},
             {{"advise", example("fashion-mlp"), "--run", run}, "the spec of the run"}}) {
      const CliResult refused = cli.run(words);
      QVERIFY2(refused.exit == 2 && refused.err.contains(text), refused.text());
    }
  }

  static void refusals(const Cli& cli, const QString& run) {
    const std::initializer_list<std::pair<QStringList, const char*>> wrong{
        {{"--without", "3"}, "there is no rank 3"},
        {{"--without", "x"}, "--without x"},
        {{"--without", "-1"}, "there is no rank -1"},
        {{"--link", "a-b=1GB/s"}, "its nodes are"},
        {{"--link", "10"}, "--link 10"},
        {{"--no-bubble"}, "not a pipeline"},
        {{"--last", "0"}, "--last"},
        {{"--with", "ranks=0"}, "--with ranks=0"},
        {{"--with", "ranks=4", "--ideal-network"}, "plans anew"},
        {{"--with", "training.foo=1"}, "training.foo=1"},
        {{"--set", "training.batch=64"}, "--with says"}};
    for (const auto& [words, text] : wrong) {
      const CliResult refused = cli.run(QStringList{"whatif", run} + words);
      QVERIFY2(refused.exit == 2 && refused.err.contains(text), refused.text());
    }
  }
};

QTEST_GUILESS_MAIN(CliWhatIfTest)
#include "cli_whatif_test.moc"
