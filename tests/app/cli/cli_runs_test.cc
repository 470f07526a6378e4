// Runs from the command line on local agents, end to end.
#include <QDir>
#include <QDirIterator>
#include <QElapsedTimer>
#include <QFile>
#include <QJsonArray>
#include <QRegularExpression>
#include <QTest>
#include <algorithm>
#include <cmath>

#include "tests/app/cli/cli_runner.h"

using namespace lockstep::test;

namespace {

QStringList mlp(const QStringList& more) {
  return QStringList{"run", example("fashion-mlp"), "--json"} + more;
}

// Every run's story: started first, but for what a slow launch tells of the data; finished last and
// once, steps and epochs in order.
void checkStory(const CliResult& result) {
  QVERIFY2(result.onlyJson, result.text());
  QVERIFY2(!result.events.isEmpty(), result.text());
  const auto first =
      std::find_if(result.events.begin(), result.events.end(),
                   [](const auto& event) { return event["event"].toString() != "data"; });
  QVERIFY2(first != result.events.end(), result.text());
  QCOMPARE((*first)["event"].toString(), QString("started"));
  QCOMPARE(result.last()["event"].toString(), QString("finished"));
  QCOMPARE(result.all("finished").size(), 1);
  int step = 0, epoch = 0;
  for (const QJsonObject& event : result.events) {
    if (event["event"].toString() == "step") {
      QVERIFY2(event["step"].toInt() > step, result.text());
      step = event["step"].toInt();
      QCOMPARE(event["epoch"].toInt(), epoch + 1);
    } else if (event["event"].toString() == "epoch") {
      QCOMPARE(event["epoch"].toInt(), ++epoch);
    }
  }
}

}  // namespace

class CliRunsTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void aRunIsFollowedAtATerminal() {
    const Cli cli;
    Terminal terminal(cli, {"run", "fashion-mlp", "--local", "1", "--set", "training.epochs=1",
                            "--set", "training.max_steps=100"});
    QVERIFY2(terminal.finish() == 0, terminal.shown());
    const QString shown = QString::fromUtf8(terminal.shown());
    QVERIFY2(shown.contains("1 rank · ") && shown.contains("  test accuracy "), terminal.shown());
    static const QRegularExpression manyDigits("loss [0-9]\\.[0-9]{5}");
    QVERIFY2(!shown.contains(manyDigits), terminal.shown());
    QVERIFY(cli.leave());
  }

  // A run on an example's text makes it first, and says so.
  void aRunMakesTheDataOfAnExample() {
    const Cli cli;
    const QString spec = cli.write("small.yaml", R"(version: 1
model:
  input: {shape: [16], vocabulary: 256}
  layers: [embedding: {units: 16}, transformer: {heads: 2}, dense: {units: 256}]
data:
  train: {text: kjv.txt, to: 0.01}
  evaluate: {text: kjv.txt, from: 0.999}
training: {batch: 8, max_steps: 3}
)");
    const CliResult first = cli.run({"run", spec, "--local", "1", "--no-benchmark"});
    QVERIFY2(first.exit == 0, first.text());
    QVERIFY2(first.err.contains("making data (some seconds): ") ||
                 first.out.contains("making data (some seconds): "),
             first.text());
    QVERIFY(QFileInfo(cli.path("kjv.txt")).size() > 4'000'000);
    const CliResult second = cli.run({"run", spec, "--local", "1", "--no-benchmark"});
    QVERIFY2(second.exit == 0, second.text());
    QVERIFY(!second.err.contains("making data") && !second.out.contains("making data"));
  }

  // The history has the strategy that ran, and that it was found; a rerun runs the same plan.
  void autoRunsTheStrategyFound() {
    const Cli cli;
    const CliResult result =
        cli.run(mlp({"--local", "2", "--comm", "shm", "--no-benchmark", "--set",
                     "strategy.kind=auto", "--set", "training.max_steps=5"}));
    QVERIFY2(result.exit == 0, result.text());
    checkStory(result);
    QVERIFY2(result.err.contains("auto chose "), result.text());
    const QJsonObject shown = cli.run({"history", "show", "last", "--json"}).last();
    QVERIFY(!shown["strategy"].toString().isEmpty() && shown["strategy"].toString() != "auto");
    const QString spec = shown["spec_resolved"].toString();
    QVERIFY2(spec.startsWith("# auto chose " + shown["strategy"].toString()), qPrintable(spec));
    QVERIFY2(spec.contains("kind: " + shown["strategy"].toString()), qPrintable(spec));
    const QJsonArray remarks = shown["prediction"].toObject()["remarks"].toArray();
    QVERIFY(remarks[0].toString().startsWith("auto chose "));
    const CliResult text = cli.run({"history", "show", "last"});
    QVERIFY2(text.out.contains("remarks at the launch\n  auto chose "), text.text());
    const CliResult again = cli.run({"rerun", "last", "--json", "--no-benchmark"});
    QVERIFY2(again.exit == 0 && !again.err.contains("auto chose "), again.text());
    QCOMPARE(again.first("started")["plan_hash"].toString(),
             result.first("started")["plan_hash"].toString());
  }

  void runs_data() {
    QTest::addColumn<QStringList>("where");
    QTest::addColumn<int>("world");
    QTest::newRow("one") << QStringList{"--local", "1"} << 1;
    QTest::newRow("two over gloo") << QStringList{"--local", "2"} << 2;
    QTest::newRow("three over gloo") << QStringList{"--local", "3"} << 3;
    QTest::newRow("three over shm") << QStringList{"--local", "3", "--comm", "shm"} << 3;
  }
  void runs() {
    QFETCH(QStringList, where);
    QFETCH(int, world);
    const Cli cli;
    const CliResult result =
        cli.run(mlp(where + QStringList{"--set", "training.batch=96", "--set",
                                        "training.max_steps=60", "--every", "1"}));
    QVERIFY2(result.exit == 0, result.text());
    checkStory(result);
    QCOMPARE(result.first("started")["world"].toInt(), world);
    QVERIFY(!result.first("started")["plan_hash"].toString().isEmpty());
    QVERIFY(!result.first("started")["version"].toString().isEmpty());
    QCOMPARE(result.all("step").size(), 60);
    QCOMPARE(result.last()["status"].toString(), QString("succeeded"));
    QCOMPARE(result.last()["steps"].toInt(), 60);
    QCOMPARE(result.last()["weights_sha256"].toString().size(), 64);
    QVERIFY(result.all("step").back()["loss"].toDouble() <
            result.all("step").front()["loss"].toDouble());
    // Nine digits at most, and never a locale's comma.
    QVERIFY(QRegularExpression(R"("loss":0\.\d{7,9}[,}])").match(result.out).hasMatch());

    const CliResult shown = cli.run({"history", "show", "last", "--json"});
    QVERIFY2(shown.exit == 0, shown.text());
    QCOMPARE(shown.last()["state"].toString(), QString("succeeded"));
    const CliResult csv = cli.run({"history", "export", "last"});
    QCOMPARE(csv.exit, 0);
    QVERIFY(csv.out.startsWith("step,"));
    QVERIFY(csv.out.count('\n') > 60);
    QCOMPARE(cli.run({"runs", "--json"}).events.size(), 0);
    // The spec as it ran.
    const CliResult readable = cli.run({"history", "show", "last"});
    QVERIFY2(readable.out.contains("max_steps: 60") && readable.out.contains("batch: 96"),
             readable.text());

    // With the run its folders on the nodes go.
    const QString run = result.first("started")["run"].toString();
    const auto folders = [&] {
      int count = 0;
      for (const QString& node :
           QDir(cli.home() + "/local").entryList(QDir::Dirs | QDir::NoDotAndDotDot))
        count += QDir(cli.home() + "/local/" + node + "/runs/" + run).exists() ? 1 : 0;
      return count;
    };
    QVERIFY(folders() > 0);
    const CliResult deleted = cli.run({"history", "delete", run});
    QVERIFY2(deleted.exit == 0 && !deleted.err.contains("may keep"), deleted.text());
    QCOMPARE(folders(), 0);

    QVERIFY(cli.leave());
    QTRY_VERIFY2_WITH_TIMEOUT(cli.processes(run).isEmpty(),
                              qPrintable(cli.processes(run).join("\n")), 60000);
  }

  void equalRunsAndResumeEndEqual() {
    const Cli cli;
    const QStringList base{"--local", "2", "--set", "training.batch=600"};
    const auto sha = [&](const QStringList& more) {
      const CliResult result = cli.run(mlp(base + more));
      if (result.exit != 0) qWarning("%s", result.text().constData());
      return result.last()["weights_sha256"].toString();
    };
    const QString once = sha({"--set", "training.epochs=2"});
    QCOMPARE(once.size(), 64);
    QCOMPARE(sha({"--set", "training.epochs=2"}), once);
    const CliResult half = cli.run(mlp(base + QStringList{"--set", "training.epochs=1"}));
    QVERIFY2(half.exit == 0, half.text());
    QCOMPARE(half.all("epoch").size(), 1);
    QVERIFY(half.last()["weights_sha256"].toString() != once);
    const CliResult rest =
        cli.run(mlp(base + QStringList{"--set", "training.epochs=2", "--resume",
                                       half.first("started")["run"].toString()}));
    QVERIFY2(rest.exit == 0, rest.text());
    QCOMPARE(rest.last()["weights_sha256"].toString(), once);
    for (const QJsonObject& step : rest.all("step")) {
      QVERIFY(step["step"].toInt() > 100);
      QCOMPARE(step["epoch"].toInt(), 2);
    }
    // The same without saying again what runs where; and the run itself again, from its start.
    const QString run = half.first("started")["run"].toString();
    const CliResult resumed = cli.run({"resume", run, "--set", "training.epochs=2", "--json"});
    QVERIFY2(resumed.exit == 0, resumed.text());
    QCOMPARE(resumed.last()["weights_sha256"].toString(), once);
    QCOMPARE(resumed.first("started")["world"].toInt(), 2);
    const CliResult again = cli.run({"rerun", run, "--json"});
    QVERIFY2(again.exit == 0, again.text());
    QCOMPARE(again.last()["weights_sha256"].toString(), half.last()["weights_sha256"].toString());
    const CliResult none = cli.run({"resume", "nobody", "--json"});
    QVERIFY(none.exit != 0);
    QCOMPARE(none.first("error")["code"].toString(), QString("not-found"));
    QVERIFY(cli.leave());
  }

  // Of a run that was over nothing is left to train: no loss is made up.
  void aRunThatIsOverIsResumed() {
    const Cli cli;
    const CliResult whole = cli.run(mlp({"--set", "training.max_steps=30"}));
    QVERIFY2(whole.exit == 0, whole.text());
    const QString run = whole.first("started")["run"].toString();
    for (const QStringList& more : {QStringList{}, {"--set", "training.max_steps=10"}}) {
      const CliResult resumed =
          cli.run(QStringList{"resume", run, "--no-benchmark", "--json"} + more);
      QVERIFY2(resumed.exit == 0, resumed.text());
      QCOMPARE(resumed.last()["steps"].toInt(), 30);
      QVERIFY2(resumed.last()["train_loss"].isNull(), resumed.text());
      QCOMPARE(resumed.last()["weights_sha256"], whole.last()["weights_sha256"]);
      const CliResult stored = cli.run({"history", "show", "last", "--json"});
      QVERIFY2(stored.last()["train_loss"].isNull(), stored.text());
    }
    const CliResult told = cli.run({"resume", run, "--no-benchmark"});
    QVERIFY2(told.exit == 0 &&
                 told.out.contains("succeeded after 30 steps, 0 epochs; nothing was left to train"),
             told.text());
    QVERIFY(cli.leave());
  }

  // A run that ended well, of which something did not come to this machine.
  void whatIsNotKeptIsSaid() {
    const Cli cli;
    cli.write("home/models", "no folder");
    const QStringList small{"run", example("fashion-mlp"), "--no-benchmark", "--set",
                            "training.max_steps=30"};
    const CliResult unsaved = cli.run(small);
    QVERIFY2(unsaved.exit == 3, unsaved.text());
    QVERIFY2(unsaved.out.trimmed().endsWith("; the trained model is not saved here"),
             unsaved.text());
    QVERIFY2(unsaved.err.contains("cannot create") && unsaved.err.contains("/models"),
             unsaved.text());
    QVERIFY(QFile::remove(cli.path("home/models")));
    const CliResult fetched = cli.run({"attach", "last"});
    QVERIFY2(fetched.exit == 0 && !fetched.out.contains("not saved"), fetched.text());

    const QStringList longer{"run",   example("fashion-mlp"),   "--no-benchmark", "--json",
                             "--set", "training.max_steps=9000"};
    for (const QString& gone :
         {QString("history"), QString("history/history.db"), QString("history/runs")}) {
      const auto process = cli.start(longer);
      QByteArray out;
      QVERIFY(cli.awaitEvent(*process, "step", out));
      QVERIFY(QFile::rename(cli.path("home/" + gone), cli.path("aside")));
      const CliResult result = cli.finish(*process, out);
      QCOMPARE(result.last()["status"].toString(), QString("succeeded"));
      if (gone == "history/history.db") {  // it is made again from the runs' files
        QVERIFY2(result.exit == 0, result.text());
        const auto kept = cli.run({"history", "list", "--json"}).events;
        QVERIFY(!kept.empty());
        QCOMPARE(kept.front()["run"], result.first("started")["run"]);
      } else {
        QVERIFY2(result.exit == 3, result.text());
        QVERIFY2(
            result.all("error").last()["what"].toString().contains("the history has not kept run"),
            result.text());
      }
      QVERIFY(QDir(cli.path("home/history")).removeRecursively());
      QDir(cli.path("aside")).removeRecursively();
      QFile::remove(cli.path("aside"));
    }
    QVERIFY(cli.leave());
  }

  // A learning rate that is none: the run fails, and says where numbers end; asked to, it goes on.
  void aDivergedRunFails() {
    const Cli cli;
    const QStringList rate{"--local", "2",
                           "--set",   "training.optimizer.learning_rate=1e30",
                           "--set",   "training.max_steps=20"};
    const CliResult result = cli.run(mlp(rate));
    QVERIFY2(result.exit != 0, result.text());
    const QJsonObject error = result.first("error");
    QVERIFY2(error["what"].toString().startsWith(
                 "the training diverged: the loss is not finite in step "),
             result.text());
    QVERIFY2(error["why"].toString().startsWith("the first tensor that is not finite is "),
             result.text());
    QCOMPARE(result.last()["status"].toString(), QString("failed"));
    QVERIFY(result.last()["train_loss"].isNull());
    const CliResult on =
        cli.run(mlp(rate + QStringList{"--set", "training.on_nonfinite=continue"}));
    QVERIFY2(on.exit == 0, on.text());
    QCOMPARE(on.last()["steps"].toInt(), 20);
    QVERIFY(cli.leave());
  }

  // The newest checkpoint is damaged: the one before it is used, and a warning names the file and
  // the tensor.
  void aDamagedCheckpointIsPassedOver() {
    const Cli cli;
    const CliResult half = cli.run(mlp({"--local", "1", "--set", "training.batch=600", "--set",
                                        "training.max_steps=250", "--set", "training.epochs=9"}));
    QVERIFY2(half.exit == 0, half.text());
    const QString run = half.first("started")["run"].toString();
    QStringList files;
    QDirIterator found(cli.path(""), {"state.safetensors"}, QDir::Files,
                       QDirIterator::Subdirectories);
    while (found.hasNext())
      if (const QString file = found.next(); file.contains(run)) files << file;
    files.sort();
    QVERIFY2(files.size() == 2, qPrintable(files.join("\n")));
    QFile newest(files.last());
    QVERIFY(newest.open(QIODevice::ReadWrite));
    QVERIFY(newest.seek(newest.size() / 2));
    const QByteArray at = newest.peek(1);
    QVERIFY(newest.write(QByteArray(1, static_cast<char>(at[0] ^ 0x40))) == 1);
    newest.close();
    const CliResult rest =
        cli.run(mlp({"--local", "1", "--set", "training.batch=600", "--set",
                     "training.max_steps=260", "--set", "training.epochs=9", "--resume", run}));
    QVERIFY2(rest.exit == 0, rest.text());
    const QJsonObject warning = rest.first("warning");
    QVERIFY2(warning["what"].toString().startsWith(
                 "the checkpoint step-000000250 cannot be used; training continues from step-"),
             rest.text());
    QVERIFY2(warning["why"].toString().contains(files.last()) &&
                 warning["why"].toString().contains("tensor "),
             rest.text());
    QCOMPARE(rest.last()["steps"].toInt(), 260);
    QVERIFY(cli.leave());
  }

  // Servers are where the cluster says, wherever it lists them, and compute the same.
  void nodesOfRolePsServe() {
    const Cli cli;
    QByteArray nodes;
    for (const char* number : {"1", "2", "3"}) {
      nodes += QByteArray("  - name: n") + number +
               "\n    address: 127.0.0.1\n    workdir: " + cli.home().toUtf8() + "/local/" +
               number + "\n";
      if (*number == '1') nodes += "    roles: [ps]\n";
    }
    const QString cluster = cli.write("roles.yaml", "version: 1\nname: roles\nnodes:\n" + nodes);
    const QStringList how{"--set", "strategy.kind=parameter-server", "--set", "training.batch=96",
                          "--set", "training.max_steps=20"};
    const CliResult byRole = cli.run(mlp(QStringList{"--cluster", cluster} + how));
    QVERIFY2(byRole.exit == 0, byRole.text());
    checkStory(byRole);
    QCOMPARE(byRole.first("started")["world"].toInt(), 3);
    const CliResult byNumber =
        cli.run(mlp(QStringList{"--local", "3", "--set", "strategy.servers=1"} + how));
    QVERIFY2(byNumber.exit == 0, byNumber.text());
    QCOMPARE(byRole.last()["weights_sha256"].toString().size(), 64);
    QCOMPARE(byRole.last()["weights_sha256"].toString(),
             byNumber.last()["weights_sha256"].toString());
    QVERIFY(cli.leave());
  }

  // It evaluates what ranks evaluate otherwise, after the same steps. Each rank's node has a part
  // of the weights.
  void aNodeOfRoleEvaluatorEvaluates() {
    const Cli cli;
    QByteArray nodes;
    for (const char* number : {"1", "2", "3"}) {
      nodes += QByteArray("  - name: n") + number +
               "\n    address: 127.0.0.1\n    workdir: " + cli.home().toUtf8() + "/local/" +
               number + "\n";
      if (*number == '3') nodes += "    roles: [evaluator]\n";
    }
    const QString cluster = cli.write("roles.yaml", "version: 1\nname: roles\nnodes:\n" + nodes);
    const QStringList how{"--set", "strategy.kind=zero-3", "--set", "training.batch=600",
                          "--set", "training.epochs=4"};
    const CliResult apart = cli.run(mlp(QStringList{"--cluster", cluster} + how));
    QVERIFY2(apart.exit == 0, apart.text());
    checkStory(apart);
    const CliResult together = cli.run(mlp(QStringList{"--local", "2"} + how));
    QVERIFY2(together.exit == 0, together.text());
    QCOMPARE(apart.first("started")["world"].toInt(), 2);
    QCOMPARE(apart.last()["weights_sha256"].toString(),
             together.last()["weights_sha256"].toString());
    const auto epochs = together.all("epoch");
    QCOMPARE(apart.all("epoch").size(), epochs.size());
    for (const QJsonObject& epoch : apart.all("epoch")) QVERIFY(epoch["eval_loss"].isNull());
    const auto evaluations = apart.all("evaluation");
    QVERIFY2(!evaluations.isEmpty(), apart.text());
    for (const QJsonObject& evaluation : evaluations) {
      const int number = evaluation["epoch"].toInt();
      QCOMPARE(evaluation["step"].toInt(), 100 * number);
      const QJsonObject& same = epochs[number - 1];
      const double loss = same["eval_loss"].toDouble();
      QVERIFY2(std::abs(evaluation["eval_loss"].toDouble() - loss) <= 1e-6 * loss, apart.text());
      QCOMPARE(evaluation["eval_accuracy"].toDouble(), same["eval_accuracy"].toDouble());
    }
    QCOMPARE(evaluations.back()["epoch"].toInt(), 4);
    QCOMPARE(apart.last()["eval_loss"].toDouble(), evaluations.back()["eval_loss"].toDouble());
    const CliResult shown =
        cli.run({"history", "show", apart.first("started")["run"].toString(), "--json"});
    QVERIFY2(shown.exit == 0, shown.text());
    QCOMPARE(shown.last()["eval_loss"].toDouble(), apart.last()["eval_loss"].toDouble());
    QVERIFY(cli.leave());
  }

  void atMostTenStepsASecond() {
    const Cli cli;
    QElapsedTimer timer;
    timer.start();
    const CliResult result = cli.run(mlp({"--set", "training.max_steps=2000"}));
    QVERIFY2(result.exit == 0, result.text());
    checkStory(result);
    QVERIFY(result.all("step").size() <= timer.elapsed() / 100 + 1);
    QVERIFY(cli.leave());
  }

  void detachedRunIsListedFollowedAndStopped() {
    const Cli cli;
    const CliResult started =
        cli.run(mlp({"--local", "2", "--set", "training.epochs=1000", "--detach"}));
    QVERIFY2(started.exit == 0, started.text());
    QCOMPARE(started.events.size() - started.all("data").size(), 1);
    const QString run = started.first("started")["run"].toString();
    const CliResult listed = cli.run({"runs", "--json"});
    QCOMPARE(listed.events.size(), 1);
    QCOMPARE(listed.last()["run"].toString(), run);

    const auto attached = cli.start({"attach", run, "--json", "--every", "1"});
    QByteArray out;
    QVERIFY(cli.awaitEvent(*attached, "step", out));
    const CliResult stopped = cli.run({"stop", run, "--json"});
    QVERIFY2(stopped.exit == 0, stopped.text());
    QCOMPARE(stopped.last()["status"].toString(), QString("stopped"));
    const CliResult followed = cli.finish(*attached, out);
    QCOMPARE(followed.exit, 130);
    checkStory(followed);
    QCOMPARE(followed.all("step").front()["step"].toInt(), 1);
    QCOMPARE(followed.last()["status"].toString(), QString("stopped"));
    QCOMPARE(followed.all("step").size(), followed.last()["steps"].toInt());
    const CliResult logs = cli.run({"logs", run, "--json"});
    QCOMPARE(logs.exit, 0);
    QVERIFY(logs.onlyJson);
    QVERIFY(cli.leave());
    QTRY_VERIFY2_WITH_TIMEOUT(cli.processes(run).isEmpty(),
                              qPrintable(cli.processes(run).join("\n")), 60000);
  }

  // Of a run that nobody followed to its end, `runs` asks its nodes.
  void runsAsksTheNodes() {
    const Cli cli;
    const CliResult started =
        cli.run(mlp({"--no-benchmark", "--set", "training.max_steps=30", "--detach"}));
    QVERIFY2(started.exit == 0, started.text());
    const QString run = started.first("started")["run"].toString();
    QTRY_VERIFY2_WITH_TIMEOUT(cli.run({"runs", "--json"}).events.isEmpty(), "the run has not ended",
                              60000);
    const CliResult stored = cli.run({"history", "show", run, "--json"});
    QCOMPARE(stored.last()["state"].toString(), QString("succeeded"));
    QCOMPARE(stored.last()["steps"].toInt(), 30);
    QVERIFY(cli.leave());
  }

  void plainTextHasALineAnEpoch() {
    const Cli cli;
    const CliResult result = cli.run({"run", example("fashion-mlp"), "--set", "training.batch=600",
                                      "--set", "training.epochs=2"});
    QVERIFY2(result.exit == 0, result.text());
    QCOMPARE(result.out.count("\nepoch "), 2);
    QVERIFY(result.out.contains("succeeded after 200 steps"));
    QVERIFY(!result.out.contains('\x1b'));
    QVERIFY(cli.leave());
  }
};

QTEST_GUILESS_MAIN(CliRunsTest)
#include "cli_runs_test.moc"
