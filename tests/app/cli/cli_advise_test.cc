// A run goes on with a strategy that was sought for its nodes as it measured them.
#include <QJsonDocument>
#include <QTest>

#include "tests/app/cli/cli_runner.h"

using namespace lockstep::test;

class CliAdviseTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void aRunUnderWayIsResumedWithAnotherStrategy() {
    const Cli cli;
    const auto process = cli.start(training("multi-worker-mirrored", "2", kEndless));
    QByteArray out;
    while (lastStep(out) < kMeasured) QVERIFY(cli.awaitNext(*process, "step", out));
    const QString run = runOf(out);
    const QStringList words{"advise",    "--run", run, "--pin", "strategy.kind=zero-1",
                            "--seconds", "2"};
    const QStringList tooMany = words + QStringList{"--top", "1", "--apply", "2"};
    CliResult refused = cli.run(tooMany);
    while (refused.err.contains("cannot be replayed")) {  // no events of a step are stored yet
      QVERIFY(cli.awaitNext(*process, "step", out));
      refused = cli.run(tooMany);
    }
    QVERIFY2(refused.exit == 2 && refused.err.contains("--apply 2"), refused.text());
    const CliResult applied = cli.run(words + QStringList{"--apply", "1", "--detach", "--json"});
    QVERIFY2(applied.exit == 0 && applied.onlyJson, applied.text());
    QVERIFY2(applied.first("advice")["command"].toString().startsWith(
                 QString("lockstep stop %1 --home %2 && lockstep resume %1 --set ")
                     .arg(run, cli.home())),
             applied.text());
    QCOMPARE(applied.first("finished")["status"].toString(), QString("stopped"));
    QCOMPARE(cli.finish(*process, out).last()["status"].toString(), QString("stopped"));
    const QString next = applied.first("started")["run"].toString();
    QVERIFY2(!next.isEmpty() && next != run, applied.text());
    const CliResult shown = cli.run({"history", "show", next, "--json"});
    QCOMPARE(shown.first("run")["resumed_from"].toString(), run);
    QCOMPARE(shown.first("run")["strategy"].toString(), QString("zero-1"));
    QCOMPARE(cli.run({"kill", next}).exit, 0);
    QVERIFY(cli.leave());
  }

  // A stop would lose what it has trained.
  void aRunWithoutCheckpointsIsLeftAlone() {
    const Cli cli;
    const auto process = cli.start(training("multi-worker-mirrored", "2", kEndless) +
                                   QStringList{"--set", "training.checkpoint.disabled=true"});
    QByteArray out;
    while (lastStep(out) < kMeasured) QVERIFY(cli.awaitNext(*process, "step", out));
    const CliResult refused = cli.run({"advise", "--run", runOf(out), "--apply", "1"});
    QVERIFY2(refused.exit == 3 && refused.err.contains("training.checkpoint.disabled is set"),
             refused.text());
    QVERIFY(cli.awaitNext(*process, "step", out));
    for (const auto& [words, text] : std::initializer_list<std::pair<QStringList, const char*>>{
             {{"advise", example("fashion-mlp"), "--apply", "1"}, "--apply is of a run"},
             {{"advise", "--run", runOf(out), "--apply", "1", "--show", "2"}, "leave --show out"},
             {{"advise", "--run", runOf(out), "--detach"}, "--detach goes with --apply"}}) {
      const CliResult wrong = cli.run(words);
      QVERIFY2(wrong.exit == 2 && wrong.err.contains(text), wrong.text());
    }
    QCOMPARE(cli.run({"kill", runOf(out)}).exit, 0);
    QVERIFY(cli.leave());
  }

 private:
  static constexpr int kMeasured = 500;  // steps, of which some were sampled

  static int lastStep(const QByteArray& out) {
    int last = 0;
    for (const QByteArray& line : out.split('\n')) {
      const QJsonObject one = QJsonDocument::fromJson(line).object();
      if (one["event"].toString() == "step") last = one["step"].toInt();
    }
    return last;
  }
};

QTEST_GUILESS_MAIN(CliAdviseTest)
#include "cli_advise_test.moc"
