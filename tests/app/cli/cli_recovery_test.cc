// Runs that restart after a failure: workers killed and frozen at moments that a seed chooses. What
// a restarted run ends with is, bit for bit, what an undisturbed one ends with.
#include <signal.h>

#include <QDir>
#include <QElapsedTimer>
#include <QTest>
#include <random>

#include "tests/app/cli/cli_runner.h"

using namespace lockstep::test;

namespace {

QString runOf(const QByteArray& out) {
  const qsizetype at = out.indexOf("\"run\":\"") + 7;
  return QString::fromUtf8(out.mid(at, out.indexOf('"', at) - at));
}

QByteArray read(const QString& path) {
  QFile file(path);
  return file.open(QIODevice::ReadOnly) ? file.readAll() : QByteArray();
}

QStringList training(const QString& kind, const QString& ranks, int steps) {
  return {"run",
          example("fashion-mlp"),
          "--json",
          "--every",
          "50",
          "--local",
          ranks,
          "--set",
          "strategy.kind=" + kind,
          "--set",
          "training.epochs=100",
          "--set",
          "training.max_steps=" + QString::number(steps),
          "--set",
          "training.checkpoint.every_steps=100"};
}

}  // namespace

class CliRecoveryTest : public QObject {
  Q_OBJECT

 private:
  static constexpr int kSteps = 3000;
  std::minstd_rand random_;

  // Kills a worker of the run, and waits until the run trains again.
  static void killOne(const Cli& cli, QProcess& process, QByteArray& out, std::size_t which) {
    const qsizetype told = out.size();
    const auto workers = cli.workers(runOf(out));
    QVERIFY(!workers.isEmpty());
    ::kill(static_cast<pid_t>(workers[static_cast<qsizetype>(which) % workers.size()]), SIGKILL);
    QByteArray rest;
    QVERIFY2(cli.awaitEvent(process, "recovered", rest, 20000), (out + rest).right(3000));
    out += rest;
    QVERIFY(out.indexOf("\"event\":\"recovering\"", told) > 0);
  }

 private Q_SLOTS:
  void aCheckpointIsTakenOnRequest() {
    Cli cli;
    const CliResult started =
        cli.run({"run", example("fashion-mlp"), "--json", "--local", "2", "--detach", "--set",
                 "training.batch=4", "--set", "training.epochs=1000"});
    QVERIFY2(started.exit == 0, started.text());
    const QString run = started.first("started")["run"].toString();
    const auto checkpoints = [&] {
      return QDir(cli.home() + "/local/1/runs/" + run + "/local1/checkpoints")
          .entryList({"step-*"}, QDir::Dirs);
    };
    QVERIFY(checkpoints().isEmpty());  // an epoch takes 15,000 steps
    const CliResult asked = cli.run({"checkpoint", run});
    QVERIFY2(asked.exit == 0 && asked.out.contains(run.toUtf8()), asked.text());
    QTRY_COMPARE_WITH_TIMEOUT(checkpoints().size(), qsizetype{1}, 10000);
    QCOMPARE(cli.run({"kill", run}).exit, 0);
    const CliResult late = cli.run({"checkpoint", run});
    QVERIFY2(late.exit == 3 && late.err.contains("has ended"), late.text());
    const CliResult resumed = cli.run(
        {"resume", run, "--json", "--set",
         "training.max_steps=" + QString::number(checkpoints().front().mid(5).toInt() + 5)});
    QVERIFY2(resumed.exit == 0, resumed.text());
    QCOMPARE(resumed.last()["status"].toString(), QString("succeeded"));
  }

  void aNodeIsExcludedOnRequest_data() {
    QTest::addColumn<QStringList>("settings");
    QTest::newRow("data parallel") << QStringList{"strategy.kind=multi-worker-mirrored"};
    QTest::newRow("zero-1") << QStringList{"strategy.kind=zero-1", "training.checkpoint.copies=1"};
    QTest::newRow("pipeline") << QStringList{"strategy.kind=pipeline",
                                             "training.checkpoint.copies=1"};
  }
  void aNodeIsExcludedOnRequest() {
    QFETCH(QStringList, settings);
    Cli cli;
    QStringList arguments = training("mirrored", "3", 2 * kSteps);
    for (const QString& setting : settings) arguments << "--set" << setting;
    const auto process = cli.start(arguments);
    QByteArray out;
    QVERIFY(cli.awaitEvent(*process, "step", out));
    const QString run = runOf(out);
    const auto refused = [&](const QString& node, const QByteArray& why) {
      const CliResult asked = cli.run({"exclude", run, node});
      QVERIFY2(asked.exit != 0 && asked.err.contains(why), asked.text());
    };
    refused("local9", "no ranks");
    refused("local1", "coordinates the run");
    const CliResult asked = cli.run({"exclude", run, "local3"});
    QVERIFY2(asked.exit == 0 && asked.out.contains("without node local3"), asked.text());
    QVERIFY2(cli.awaitEvent(*process, "recovered", out, 20000), out.right(3000));
    QTRY_COMPARE_WITH_TIMEOUT(cli.workers(run).size(), qsizetype{2}, 10000);
    refused("local3", "no ranks");
    const QString log = cli.home() + "/local/3/runs/" + run + "/local3/logs/supervisor.log";
    QTRY_VERIFY_WITH_TIMEOUT(read(log).contains("the run continues without node local3"), 5000);
    const CliResult result = cli.finish(*process, out);
    QVERIFY2(result.exit == 0, result.text());
    QVERIFY(result.all("error").isEmpty());
    QCOMPARE(result.last()["steps"].toInt(), 2 * kSteps);
    const auto recovering = result.all("recovering");
    QCOMPARE(recovering.size(), qsizetype{1});
    QCOMPARE(recovering[0]["cause"].toString(), QString("node local3 was excluded on request"));
    QCOMPARE(recovering[0]["node"].toString(), QString("local3"));
    QCOMPARE(recovering[0]["world"].toInt(), 2);
    int before = 0;
    for (const QJsonObject& step : result.all("step")) {
      QVERIFY(step["step"].toInt() > before);
      before = step["step"].toInt();
    }
    refused("local2", "has ended");
    // Its agent has left the run, and takes part in the next.
    const CliResult next = cli.run(training("multi-worker-mirrored", "3", 50));
    QVERIFY2(next.exit == 0, next.text());
  }

  // A worker fails after the request and before its checkpoint, which a suspended worker holds up.
  // The run restarts without the node where the others have all parts of a checkpoint, else with
  // it, and excludes it after the next one.
  void aFailureComesBeforeTheExclusion_data() {
    QTest::addColumn<QStringList>("settings");
    QTest::addColumn<bool>("copied");  // a checkpoint before the request
    QTest::newRow("all have all") << QStringList{"strategy.kind=multi-worker-mirrored"} << false;
    QTest::newRow("copied before")
        << QStringList{"strategy.kind=zero-1", "training.checkpoint.copies=1"} << true;
    QTest::newRow("not copied yet")
        << QStringList{"strategy.kind=zero-1", "training.checkpoint.copies=1",
                       "training.checkpoint.every_steps=100000"}
        << false;
  }
  void aFailureComesBeforeTheExclusion() {
    QFETCH(QStringList, settings);
    QFETCH(bool, copied);
    Cli cli;
    QStringList arguments = training("mirrored", "3", 3 * kSteps);
    for (const QString& setting : settings) arguments << "--set" << setting;
    const auto process = cli.start(arguments);
    QByteArray out;
    QVERIFY(cli.awaitEvent(*process, "step", out));
    const QString run = runOf(out);
    const QString folder = cli.home() + "/local/%1/runs/" + run + "/local%1/";
    if (copied) {
      const auto holders = [&] {  // of parts of the newest checkpoints
        int count = 0;
        for (const int node : {1, 2, 3})
          count += static_cast<int>(
              QDir(folder.arg(node) + "checkpoints").entryList({"step-*"}, QDir::Dirs).size());
        return count;
      };
      QTRY_VERIFY_WITH_TIMEOUT(holders() >= 5, 20000);
    }
    int victim = 0;
    for (const qint64 worker : cli.workers(run))
      if (QFile::symLinkTarget("/proc/" + QString::number(worker) + "/cwd").endsWith("/local2"))
        victim = static_cast<int>(worker);
    QVERIFY(victim > 0);
    ::kill(victim, SIGSTOP);
    const CliResult asked = cli.run({"exclude", run, "local3"});
    QVERIFY2(asked.exit == 0, asked.text());
    ::kill(victim, SIGKILL);
    const CliResult result = cli.finish(*process, out);
    QVERIFY2(result.exit == 0, result.text());
    QCOMPARE(result.last()["steps"].toInt(), 3 * kSteps);
    const auto recovering = result.all("recovering");
    const bool atOnce = copied || settings.size() == 1;
    QCOMPARE(recovering.size(), qsizetype{atOnce ? 1 : 2});
    QVERIFY2(recovering[0]["cause"].toString().contains("SIGKILL"), result.text());
    if (!atOnce) QVERIFY(!recovering[0].contains("world"));
    const QJsonObject& last = recovering.back();
    QVERIFY2((last["cause"].toString() + last["why"].toString())
                 .contains("node local3 was excluded on request"),
             result.text());
    QCOMPARE(last["world"].toInt(), 2);
    const CliResult shown = cli.run({"history", "show", run});
    QVERIFY2(shown.out.contains("node local3 was excluded on request"), shown.text());
  }

  void aNodeWithTheOnlyCopyStays() {
    Cli cli;
    const CliResult started =
        cli.run({"run", example("fashion-mlp"), "--json", "--local", "2", "--detach", "--set",
                 "strategy.kind=zero-1", "--set", "training.epochs=1000"});
    QVERIFY2(started.exit == 0, started.text());
    const QString run = started.first("started")["run"].toString();
    QByteArray out;
    const auto attached = cli.start({"attach", run, "--json"});
    QVERIFY(cli.awaitEvent(*attached, "step", out));
    const CliResult asked = cli.run({"exclude", run, "local2"});
    QVERIFY2(asked.exit != 0 && asked.err.contains("no other node has a copy"), asked.text());
    const CliResult nameless = cli.run({"exclude", run, ""});
    QVERIFY2(nameless.exit == 2 && nameless.err.contains("name of a node"), nameless.text());
    QCOMPARE(cli.run({"kill", run}).exit, 0);
    cli.finish(*attached, out);
  }

  // The copies of local2 are on local3.
  void bothHoldersOfAPartDoNotLeave() {
    Cli cli;
    const auto process =
        cli.start(training("zero-3", "4", 2 * kSteps) << "--set"
                                                      << "training.checkpoint.copies=1");
    QByteArray out;
    QVERIFY(cli.awaitEvent(*process, "step", out));
    const QString run = runOf(out);
    const CliResult first = cli.run({"exclude", run, "local2"});
    QVERIFY2(first.exit == 0, first.text());
    const CliResult second = cli.run({"exclude", run, "local3"});
    QVERIFY2(second.exit == 0 || second.err.contains("no other node has a copy") ||
                 second.err.contains("restarting"),
             second.text());
    const CliResult result = cli.finish(*process, out);
    QVERIFY2(result.exit == 0, result.text());
    QCOMPARE(result.last()["steps"].toInt(), 2 * kSteps);
  }

  // All ranks, from a checkpoint, with the same bits in the end; also where failures end the run.
  void ranksAreRestartedOnRequest_data() {
    QTest::addColumn<QString>("kind");
    QTest::addColumn<QString>("policy");
    QTest::newRow("data parallel") << "multi-worker-mirrored"
                                   << "restart";
    QTest::newRow("zero-1") << "zero-1"
                            << "shrink";
    QTest::newRow("pipeline, failures end it") << "pipeline"
                                               << "none";
  }
  void ranksAreRestartedOnRequest() {
    QFETCH(QString, kind);
    QFETCH(QString, policy);
    const Cli cli;
    const QStringList arguments = training(kind, "2", kSteps) << "--set"
                                                              << "recovery.policy=" + policy;
    const CliResult whole = cli.run(arguments);
    QVERIFY2(whole.exit == 0, whole.text());
    const auto process = cli.start(arguments);
    QByteArray out;
    QVERIFY(cli.awaitEvent(*process, "step", out));
    const QString run = runOf(out);
    const auto before = cli.workers(run);
    const CliResult asked = cli.run({"restart", run});
    QVERIFY2(asked.exit == 0 && asked.out.contains("restarts all ranks"), asked.text());
    QVERIFY2(cli.awaitEvent(*process, "recovered", out, 20000), out.right(3000));
    const auto after = cli.workers(run);
    QCOMPARE(after.size(), qsizetype{2});
    for (const qint64 worker : after) QVERIFY(!before.contains(worker));
    const CliResult result = cli.finish(*process, out);
    QVERIFY2(result.exit == 0, result.text());
    QCOMPARE(result.last()["weights_sha256"], whole.last()["weights_sha256"]);
    QCOMPARE(result.last()["steps"].toInt(), kSteps);
    const auto recovering = result.all("recovering"), recovered = result.all("recovered");
    QCOMPARE(recovering.size(), qsizetype{1});
    QCOMPARE(recovering[0]["cause"].toString(), QString("a restart of all ranks was requested"));
    QVERIFY(recovered[0]["seconds"].toDouble() < 10);
    const CliResult late = cli.run({"restart", run});
    QVERIFY2(late.exit != 0 && late.err.contains("has ended"), late.text());
  }

  void aKilledWorkerIsReplaced_data() {
    QTest::addColumn<QString>("kind");
    QTest::addColumn<QString>("ranks");
    QTest::newRow("one rank") << "mirrored"
                              << "1";
    QTest::newRow("data parallel") << "multi-worker-mirrored"
                                   << "3";
    QTest::newRow("zero-3") << "zero-3"
                            << "2";
    QTest::newRow("pipeline") << "pipeline"
                              << "2";
    QTest::newRow("parameter server") << "parameter-server"
                                      << "3";
  }
  void aKilledWorkerIsReplaced() {
    QFETCH(QString, kind);
    QFETCH(QString, ranks);
    const unsigned seed = qEnvironmentVariable("LOCKSTEP_SEED", "1").toUInt();
    qInfo("seed %u", seed);
    random_.seed(seed * 7919 + static_cast<unsigned>(qHash(kind)));
    const Cli cli;
    // One rank alone makes thousands of steps a second.
    const QStringList arguments = training(kind, ranks, ranks == "1" ? 5 * kSteps : kSteps);
    const CliResult whole = cli.run(arguments);
    QVERIFY2(whole.exit == 0, whole.text());

    const auto process = cli.start(arguments);
    QByteArray out;
    QVERIFY(cli.awaitEvent(*process, "step", out));
    for (int i = 0; i < 2; ++i) {
      QTest::qWait(static_cast<int>(random_() % 400));
      killOne(cli, *process, out, random_());
      if (QTest::currentTestFailed()) return;
    }
    const CliResult result = cli.finish(*process, out);
    QVERIFY2(result.exit == 0, result.text());
    QVERIFY(result.onlyJson);
    QCOMPARE(result.last()["event"].toString(), QString("finished"));
    for (const char* figure : {"weights_sha256", "train_loss", "eval_loss", "steps"})
      QCOMPARE(result.last()[figure], whole.last()[figure]);
    // Each step is told once.
    int before = 0;
    for (const QJsonObject& step : result.all("step")) {
      QVERIFY(step["step"].toInt() > before);
      before = step["step"].toInt();
    }
    const auto recovering = result.all("recovering"), recovered = result.all("recovered");
    QCOMPARE(recovering.size(), qsizetype{2});
    QCOMPARE(recovered.size(), qsizetype{2});
    for (int i = 0; i < 2; ++i) {
      QCOMPARE(recovering[i]["generation"].toInt(), i + 2);
      QCOMPARE(recovered[i]["generation"].toInt(), i + 2);
      QVERIFY2(recovering[i]["cause"].toString().contains("SIGKILL"), result.text());
      QVERIFY(recovering[i]["node"].toString().startsWith("local"));
      QVERIFY(recovering[i]["rank"].toInt(-1) >= 0);
      QVERIFY2(recovered[i]["seconds"].toDouble() < 10, result.text());
      QVERIFY(recovered[i]["lost_steps"].toInt(-1) >= 0);
    }
    QVERIFY(cli.leave());
    QTRY_VERIFY_WITH_TIMEOUT(cli.processes(runOf(out)).isEmpty(), 10000);
  }

  // No generation lives until a step: the run ends, and says what was tried.
  void aFailureThatComesAgainEndsTheRun() {
    const Cli cli;
    const auto process = cli.start(training("multi-worker-mirrored", "2", 1'000'000));
    QByteArray out;
    QVERIFY(cli.awaitEvent(*process, "step", out));
    const QString run = runOf(out);
    QElapsedTimer clock;
    clock.start();
    while (process->state() != QProcess::NotRunning && clock.elapsed() < 60000) {
      for (const qint64 worker : cli.workers(run)) ::kill(static_cast<pid_t>(worker), SIGKILL);
      process->waitForFinished(10);
    }
    const CliResult result = cli.finish(*process, out);
    QVERIFY2(result.exit == 1, result.text());
    QCOMPARE(result.last()["status"].toString(), QString("failed"));
    QVERIFY2(result.first("error")["why"].toString().contains("restarts led to no step after step"),
             result.text());
    QVERIFY(cli.leave());
  }

  void aRunThatRecoversCanBeStopped() {
    const Cli cli;
    const auto process = cli.start(training("multi-worker-mirrored", "2", 1'000'000));
    QByteArray out;
    QVERIFY(cli.awaitEvent(*process, "step", out));
    const QString run = runOf(out);
    // Twice without a step between them: the next workers start after a pause.
    QElapsedTimer clock;
    clock.start();
    while (out.count("\"event\":\"recovering\"") < 2 && clock.elapsed() < 30000) {
      for (const qint64 worker : cli.workers(run)) ::kill(static_cast<pid_t>(worker), SIGKILL);
      process->waitForReadyRead(10);
      out += process->readAllStandardOutput();
    }
    const CliResult stop = cli.run({"stop", run});
    QVERIFY2(stop.exit == 0, stop.text());
    const CliResult result = cli.finish(*process, out);
    QCOMPARE(result.last()["status"].toString(), QString("stopped"));
    QVERIFY(cli.leave());
    QTRY_VERIFY_WITH_TIMEOUT(cli.processes(run).isEmpty(), 10000);
  }
};

QTEST_GUILESS_MAIN(CliRecoveryTest)
#include "cli_recovery_test.moc"
