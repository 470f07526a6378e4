// Nodes that are excluded from a run, on request or because they fail repeatedly, and ranks that
// are restarted on request.
#include <signal.h>

#include <QDir>
#include <QElapsedTimer>
#include <QJsonArray>
#include <QTest>

#include "tests/app/cli/cli_runner.h"

using namespace lockstep::test;

namespace {

QByteArray read(const QString& path) {
  QFile file(path);
  return file.open(QIODevice::ReadOnly) ? file.readAll() : QByteArray();
}

// The process of the node's worker; 0: none.
pid_t workerOf(const Cli& cli, const QString& run, const QString& node) {
  for (const qint64 worker : cli.workers(run))
    if (QFile::symLinkTarget("/proc/" + QString::number(worker) + "/cwd").endsWith("/" + node))
      return static_cast<pid_t>(worker);
  return 0;
}

}  // namespace

class CliExcludeTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
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
    QStringList arguments = training("mirrored", "3", kEndless);
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
    QVERIFY2(cli.awaitEvent(*process, "recovered", out), out.right(3000));
    QTRY_COMPARE_WITH_TIMEOUT(cli.workers(run).size(), qsizetype{2}, 60000);
    QCOMPARE(cli.run({"exclude", run, "local3"}).exit, 0);  // it is done
    const QString log = cli.home() + "/local/3/runs/" + run + "/local3/logs/supervisor.log";
    QTRY_VERIFY_WITH_TIMEOUT(read(log).contains("the run continues without node local3"), 60000);
    QVERIFY2(cli.awaitNext(*process, "step", out), out.right(3000));
    const CliResult result = cli.stop(*process, out);
    QVERIFY2(result.exit == 130, result.text());
    QVERIFY(result.all("error").isEmpty());
    QCOMPARE(result.last()["status"].toString(), QString("stopped"));
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
  // it, and excludes it after the next one. A checkpoint that all ranks had begun before the worker
  // was suspended may also be the request's: the run is then without the node before it fails.
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
    QStringList arguments = training("mirrored", "3", kEndless)
                            << "--set"
                            << "training.checkpoint.every_steps=1000";
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
      QTRY_VERIFY_WITH_TIMEOUT(holders() >= 5, 60000);
    }
    const pid_t victim = workerOf(cli, run, "local2");
    QVERIFY(victim > 0);
    ::kill(victim, SIGSTOP);
    const CliResult asked = cli.run({"exclude", run, "local3"});
    QVERIFY2(asked.exit == 0, asked.text());
    ::kill(victim, SIGKILL);
    QVERIFY2(cli.awaitEvent(*process, "recovered", out), out.right(3000));
    const bool excludedFirst = out.contains("\"cause\":\"node local3 was excluded on request\"");
    const bool atOnce = copied || settings.size() == 1 || excludedFirst;
    if (!atOnce) QVERIFY2(cli.awaitNext(*process, "recovered", out), out.right(3000));
    QVERIFY2(cli.awaitNext(*process, "step", out), out.right(3000));
    const CliResult result = cli.stop(*process, out);
    QVERIFY2(result.exit == 130, result.text());
    QCOMPARE(result.last()["status"].toString(), QString("stopped"));
    const auto recovering = result.all("recovering");
    QVERIFY2(!recovering.empty(), result.text());
    const QString cause = recovering[0]["cause"].toString();
    QVERIFY2(cause.contains("SIGKILL") || excludedFirst, qPrintable(cause));
    QCOMPARE(recovering.size(), qsizetype{atOnce ? 1 : 2});
    if (!atOnce) QVERIFY(!recovering[0].contains("world"));
    const QJsonObject& last = recovering.back();
    QVERIFY2((last["cause"].toString() + last["why"].toString())
                 .contains("node local3 was excluded on request"),
             result.text());
    QCOMPARE(last["world"].toInt(), 2);
    const CliResult shown = cli.run({"history", "show", run});
    QVERIFY2(shown.out.contains("node local3 was excluded on request"), shown.text());
  }

  // The worker of one node is killed again and again. The run continues without the node if a spare
  // takes its place or the others go on; else it ends, with what failed and how often.
  void aNodeThatFailsRepeatedlyIsExcluded_data() {
    QTest::addColumn<QString>("role");  // of the third node
    QTest::addColumn<QString>("policy");
    QTest::addColumn<bool>("excluded");
    QTest::newRow("a spare takes its place") << "spare"
                                             << "restart" << true;
    QTest::newRow("the others go on") << ""
                                      << "shrink" << true;
    QTest::newRow("nothing replaces it") << ""
                                         << "restart" << false;
  }
  void aNodeThatFailsRepeatedlyIsExcluded() {
    QFETCH(QString, role);
    QFETCH(QString, policy);
    QFETCH(bool, excluded);
    const Cli cli;
    QByteArray nodes;
    for (const char* number : {"1", "2", "3"})
      nodes += QByteArray("  - name: n") + number +
               "\n    address: 127.0.0.1\n    workdir: " + cli.home().toUtf8() + "/local/" +
               number + "\n" +
               (*number == '3' && !role.isEmpty() ? "    roles: [" + role.toUtf8() + "]\n" : "");
    QStringList arguments = training("multi-worker-mirrored", "3", kEndless);
    const qsizetype local = arguments.indexOf("--local");
    arguments[local] = "--cluster";
    arguments[local + 1] = cli.write("three.yaml", "version: 1\nname: three\nnodes:\n" + nodes);
    const auto process = cli.start(arguments + QStringList{"--set", "recovery.policy=" + policy,
                                                           "--set", "recovery.max_restarts=3"});
    QByteArray out;
    QVERIFY(cli.awaitEvent(*process, "step", out));
    const QString run = runOf(out);
    const auto killOne = [&] {
      const pid_t victim = workerOf(cli, run, "n2");
      QVERIFY(victim > 0);
      ::kill(victim, SIGKILL);
    };
    for (int i = 0; i < 3; ++i) {
      killOne();
      if (QTest::currentTestFailed()) return;
      QVERIFY2(cli.awaitNext(*process, "recovered", out), out.right(3000));
      QVERIFY2(cli.awaitNext(*process, "step", out), out.right(3000));
    }
    if (!excluded) killOne();
    if (QTest::currentTestFailed()) return;
    const CliResult result = excluded ? cli.stop(*process, out) : cli.finish(*process, out);
    const auto recovering = result.all("recovering");
    QCOMPARE(recovering.size(), qsizetype{3});
    for (int i = 0; i < 2; ++i) QVERIFY2(!recovering[i].contains("world"), result.text());
    for (const QJsonObject& one : recovering) {
      QVERIFY2(one["cause"].toString().contains("SIGKILL"), result.text());
      QCOMPARE(one["node"].toString(), QString("n2"));
    }
    if (!excluded) {
      QVERIFY2(result.exit == 1, result.text());
      const QJsonObject error = result.first("error");
      QCOMPARE(error["node"].toString(), QString("n2"));
      QCOMPARE(error["rank"].toInt(), 1);
      QVERIFY2(error["step"].toInt() > 0, result.text());
      QVERIFY2(error["why"].toString().contains("node n2 caused 4 of the last 4 failures"),
               result.text());
      return;
    }
    QVERIFY2(result.exit == 130, result.text());
    QVERIFY(result.all("error").isEmpty());
    const QJsonObject& last = recovering.back();
    QVERIFY2(
        last["why"].toString().contains("node n2 caused 3 of the last 3 failures, and is excluded"),
        result.text());
    QCOMPARE(last["world"].toInt(), 2);
    QCOMPARE(last["nodes"].toArray(), (QJsonArray{"n1", "n3"}));
    const QString log = cli.home() + "/local/2/runs/" + run + "/n2/logs/supervisor.log";
    QTRY_VERIFY_WITH_TIMEOUT(read(log).contains("the run continues without node n2"), 60000);
    if (role.isEmpty()) return;
    const CliResult whole =
        cli.run(training("multi-worker-mirrored", "2", result.last()["steps"].toInt()));
    QVERIFY2(whole.exit == 0, whole.text());
    QCOMPARE(result.last()["weights_sha256"].toString().size(), qsizetype{64});
    QCOMPARE(result.last()["weights_sha256"], whole.last()["weights_sha256"]);
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
        cli.start(training("zero-3", "4", kEndless) << "--set"
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
    QVERIFY2(cli.awaitEvent(*process, "recovered", out), out.right(3000));
    QVERIFY2(cli.awaitNext(*process, "step", out), out.right(3000));
    const CliResult result = cli.stop(*process, out);
    QVERIFY2(result.exit == 130, result.text());
    QCOMPARE(result.last()["status"].toString(), QString("stopped"));
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
    const QStringList how{"--set", "recovery.policy=" + policy};
    QElapsedTimer clock;
    clock.start();
    const auto process = cli.start(training(kind, "2", kEndless) + how);
    QByteArray out;
    QVERIFY(cli.awaitEvent(*process, "step", out));
    const double most = mostRecoverySeconds(clock.elapsed());
    const QString run = runOf(out);
    const auto before = cli.workers(run);
    const CliResult asked = cli.run({"restart", run});
    QVERIFY2(asked.exit == 0 && asked.out.contains("restarts all ranks"), asked.text());
    QVERIFY2(cli.awaitEvent(*process, "recovered", out), out.right(3000));
    const auto after = cli.workers(run);
    QCOMPARE(after.size(), qsizetype{2});
    for (const qint64 worker : after) QVERIFY(!before.contains(worker));
    QVERIFY2(cli.awaitNext(*process, "step", out), out.right(3000));
    const CliResult result = cli.stop(*process, out);
    QVERIFY2(result.exit == 130, result.text());
    const int steps = result.last()["steps"].toInt();
    const CliResult whole = cli.run(training(kind, "2", steps) + how);
    QVERIFY2(whole.exit == 0, whole.text());
    QCOMPARE(result.last()["weights_sha256"].toString().size(), qsizetype{64});
    QCOMPARE(result.last()["weights_sha256"], whole.last()["weights_sha256"]);
    QCOMPARE(whole.last()["steps"].toInt(), steps);
    const auto recovering = result.all("recovering"), recovered = result.all("recovered");
    QCOMPARE(recovering.size(), qsizetype{1});
    QCOMPARE(recovering[0]["cause"].toString(), QString("a restart of all ranks was requested"));
    QVERIFY2(recovered[0]["seconds"].toDouble() < most, result.text());
    const CliResult late = cli.run({"restart", run});
    QVERIFY2(late.exit != 0 && late.err.contains("has ended"), late.text());
  }
};

QTEST_GUILESS_MAIN(CliExcludeTest)
#include "cli_exclude_test.moc"
