// Runs that restart after a failure: workers killed and frozen at moments that a seed chooses. What
// a restarted run ends with is, bit for bit, what an undisturbed one ends with.
#include <signal.h>

#include <QDir>
#include <QElapsedTimer>
#include <QJsonArray>
#include <QJsonDocument>
#include <QScopeGuard>
#include <QTest>
#include <algorithm>
#include <random>

#include "tests/app/cli/cli_runner.h"

using namespace lockstep::test;

class CliRecoveryTest : public QObject {
  Q_OBJECT

 private:
  std::minstd_rand random_;

  // Kills a worker of the run, and waits until the run trains again.
  static void killOne(const Cli& cli, QProcess& process, QByteArray& out, std::size_t which) {
    const qsizetype told = out.size();
    const auto workers = cli.workers(runOf(out));
    QVERIFY(!workers.isEmpty());
    ::kill(static_cast<pid_t>(workers[static_cast<qsizetype>(which) % workers.size()]), SIGKILL);
    QVERIFY2(cli.awaitNext(process, "recovered", out), out.right(3000));
    QVERIFY(out.indexOf("\"event\":\"recovering\"", told) > 0);
  }

 private Q_SLOTS:
  void aCheckpointIsTakenOnRequest() {
    Cli cli;
    const CliResult started =
        cli.run({"run", example("fashion-mlp"), "--json", "--local", "2", "--detach", "--set",
                 "training.epochs=1000", "--set", "training.checkpoint.every_minutes=600"});
    QVERIFY2(started.exit == 0, started.text());
    const QString run = started.first("started")["run"].toString();
    const auto checkpoints = [&] {
      return QDir(cli.home() + "/local/1/runs/" + run + "/local1/checkpoints")
          .entryList({"step-*"}, QDir::Dirs);
    };
    QVERIFY(checkpoints().isEmpty());
    const CliResult asked = cli.run({"checkpoint", run});
    QVERIFY2(asked.exit == 0 && asked.out.contains(run.toUtf8()), asked.text());
    QTRY_COMPARE_WITH_TIMEOUT(checkpoints().size(), qsizetype{1}, 60000);
    QCOMPARE(cli.run({"kill", run}).exit, 0);
    const CliResult late = cli.run({"checkpoint", run});
    QVERIFY2(late.exit == 3 && late.err.contains("has ended"), late.text());
    const CliResult resumed = cli.run(
        {"resume", run, "--json", "--set",
         "training.max_steps=" + QString::number(checkpoints().front().mid(5).toInt() + 5)});
    QVERIFY2(resumed.exit == 0, resumed.text());
    QCOMPARE(resumed.last()["status"].toString(), QString("succeeded"));
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
    QElapsedTimer clock;
    clock.start();
    const auto process = cli.start(training(kind, ranks, kEndless));
    QByteArray out;
    QVERIFY(cli.awaitEvent(*process, "step", out));
    const double most = mostRecoverySeconds(clock.elapsed());
    for (int i = 0; i < 2; ++i) {
      QTest::qWait(static_cast<int>(random_() % 400));
      killOne(cli, *process, out, random_());
      if (QTest::currentTestFailed()) return;
    }
    QVERIFY(cli.awaitNext(*process, "step", out));
    const CliResult result = cli.stop(*process, out);
    QVERIFY2(result.exit == 130, result.text());
    QVERIFY(result.onlyJson);
    QCOMPARE(result.last()["event"].toString(), QString("finished"));
    QCOMPARE(result.last()["status"].toString(), QString("stopped"));
    const CliResult whole = cli.run(training(kind, ranks, result.last()["steps"].toInt()));
    QVERIFY2(whole.exit == 0, whole.text());
    QCOMPARE(whole.last()["weights_sha256"].toString().size(), qsizetype{64});
    for (const char* figure : {"weights_sha256", "train_loss", "steps"})
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
      const auto time = [](const QJsonObject& line) {
        return QDateTime::fromString(line["time"].toString(), Qt::ISODate);
      };
      QVERIFY2(time(recovering[i]).isValid() && time(recovered[i]) >= time(recovering[i]),
               result.text());
      QVERIFY2(recovered[i]["seconds"].toDouble() < most, result.text());
      QVERIFY(recovered[i]["lost_steps"].toInt(-1) >= 0);
    }
    // What that cost is a figure of the run, as of one without failures.
    const CliResult shown = cli.run({"history", "show", runOf(out), "--json"});
    for (const QJsonObject& figures : {result.last(), shown.first("run")}) {
      QVERIFY2(figures["lost_seconds"].toDouble() > 0, shown.text());
      const double effective = figures["effective_time"].toDouble();
      QVERIFY2(effective > 0 && effective < 1, shown.text());
    }
    QCOMPARE(whole.last()["lost_seconds"].toDouble(-1), 0.0);
    QCOMPARE(whole.last()["effective_time"].toDouble(), 1.0);
    QVERIFY(cli.leave());
    QTRY_VERIFY_WITH_TIMEOUT(cli.processes(runOf(out)).isEmpty(), 60000);
  }

  // Likewise at a terminal: what has failed and what is done, then what it has cost.
  void aTerminalShowsIt() {
    const Cli cli;
    Terminal terminal(
        cli, {"run", example("fashion-mlp"), "--local", "2", "--set", "training.epochs=1000000"});
    QVERIFY2(terminal.await("samples/s", 120000), terminal.shown());
    const QString run = QRegularExpression("[0-9]{8}-[0-9]{6}-[0-9a-z]+")
                            .match(QString::fromUtf8(terminal.shown()))
                            .captured();
    const auto workers = cli.workers(run);
    QCOMPARE(workers.size(), qsizetype{2});
    ::kill(static_cast<pid_t>(workers.front()), SIGKILL);
    QVERIFY2(terminal.await(": the run restarts from its last checkpoint: "), terminal.shown());
    QVERIFY2(terminal.await("SIGKILL"), terminal.shown());
    QVERIFY2(terminal.await(": the run trains again after "), terminal.shown());
    QCOMPARE(cli.run({"stop", run}).exit, 0);
    QCOMPARE(terminal.finish(), 130);
    QVERIFY(cli.leave());
  }

  // No generation lives until a step: the run ends, and says what was tried.
  void aFailureThatComesAgainEndsTheRun() {
    const Cli cli;
    const auto process = cli.start(training("multi-worker-mirrored", "2", kEndless));
    QByteArray out;
    QVERIFY(cli.awaitEvent(*process, "step", out));
    const QString run = runOf(out);
    QElapsedTimer clock;
    clock.start();
    while (process->state() != QProcess::NotRunning && clock.elapsed() < 120000) {
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

  // The volume of the checkpoints is not mounted any more when the run restarts: the run ends, and
  // makes no folder on the disk beneath. It cannot be resumed until the volume is back.
  void aRestartWithoutTheVolumeSaysSo() {
    const Cli cli;
    const QString volume = cli.path("volume");
    QVERIFY(QDir().mkpath(volume));
    const auto process = cli.start(training("multi-worker-mirrored", "2", kEndless) +
                                   QStringList{"--set", "training.checkpoint.path=" + volume});
    QByteArray out;
    QVERIFY(cli.awaitEvent(*process, "step", out));
    const QString run = runOf(out), kept = volume + "/" + run, away = cli.path("away");
    const auto checkpoints = [](const QString& folder) {
      return QDir(folder).entryList({"step-*"}, QDir::Dirs, QDir::Name);
    };
    // The first of two is known to the coordinator.
    QTRY_VERIFY_WITH_TIMEOUT(checkpoints(kept).size() > 1, 60000);
    QVERIFY(QDir().rename(kept, away));
    const auto workers = cli.workers(run);
    QVERIFY(!workers.isEmpty());
    ::kill(static_cast<pid_t>(workers.front()), SIGKILL);
    const CliResult result = cli.finish(*process, out);
    QCOMPARE(result.last()["status"].toString(), QString("failed"));
    const auto errors = result.all("error");
    const auto namesIt = [&](const QJsonObject& error) {
      return error["what"].toString().contains("no folder " + kept);
    };
    QVERIFY2(std::any_of(errors.begin(), errors.end(), namesIt), result.text());
    QVERIFY(!QFile::exists(kept));
    const QStringList resume{
        "resume", run, "--json", "--set",
        "training.max_steps=" + QString::number(checkpoints(away).last().mid(5).toInt() + 5)};
    const CliResult refused = cli.run(resume);
    QVERIFY2(refused.exit == 3 && namesIt(refused.first("error")), refused.text());
    QVERIFY2(refused.first("error")["next"].toString().contains("mount"), refused.text());
    QVERIFY(QDir().rename(away, kept));
    const CliResult resumed = cli.run(resume);
    QVERIFY2(resumed.exit == 0, resumed.text());
    QVERIFY(cli.leave());
  }

  // Uneven shares of equal ranks are proposed to be even. What the run ends with is what it ends
  // with undisturbed, as nearly as sums in another order are.
  void theBatchIsDividedAnew() {
    const Cli cli;
    // Slowly, so that sums in another order stay close.
    const QStringList uneven{"--set", "strategy.shares=[3, 1]", "--set",
                             "training.optimizer.learning_rate=0.00001"};
    const auto process = cli.start(training("multi-worker-mirrored", "2", kEndless) + uneven);
    QByteArray out;
    QVERIFY(cli.awaitEvent(*process, "step", out));
    const QString run = runOf(out);
    CliResult asked;
    const auto isProposed = [&] {  // a few steps may be those of a rank that other work holds up
      asked = cli.run({"rebalance", run, "--json"});
      const QJsonObject proposal = asked.first("rebalance"), first = asked.first("speed");
      return asked.exit == 0 && proposal["last_step"].toInt() > 20 &&
             proposal["changes"].toBool() &&
             first["proposed_samples"].toInt() < first["samples"].toInt();
    };
    QTRY_VERIFY2_WITH_TIMEOUT(isProposed(), asked.text(), 60000);
    const QJsonObject proposal = asked.first("rebalance");
    QVERIFY(proposal["proposed_step_seconds"].toDouble() < proposal["step_seconds"].toDouble());
    const auto speeds = asked.all("speed");
    QCOMPARE(speeds.size(), qsizetype{2});
    QCOMPARE(speeds[0]["samples"].toInt(), 3 * speeds[1]["samples"].toInt());
    QCOMPARE(out.count("\"event\":\"recovering\""), qsizetype{0});
    const int batch = speeds[0]["samples"].toInt() + speeds[1]["samples"].toInt();
    const CliResult refused = cli.run({"rebalance", run, "--apply", "--shares", "1,2,3"});
    QVERIFY2(refused.exit == 2 && refused.err.contains("3 shares"), refused.text());
    const CliResult applied = cli.run({"rebalance", run, "--shares", "1,3", "--apply"});
    QVERIFY2(applied.exit == 0 && applied.out.contains("divides its batch so"), applied.text());
    QVERIFY2(cli.awaitNext(*process, "recovered", out), out.right(3000));
    QVERIFY(cli.awaitNext(*process, "step", out));
    CliResult again;  // as soon as the history has it
    QTRY_VERIFY2_WITH_TIMEOUT((again = cli.run({"rebalance", run, "--json"})).exit != 0 ||
                                  again.all("speed")[0]["samples"].toInt() == batch / 4,
                              again.text(), 60000);
    QVERIFY(cli.awaitNext(*process, "step", out));
    const CliResult result = cli.stop(*process, out);
    const QJsonObject recovering = result.first("recovering");
    QCOMPARE(recovering["samples"].toArray(), (QJsonArray{batch / 4, 3 * batch / 4}));
    QVERIFY(!recovering.contains("nodes"));
    QVERIFY2(recovering["cause"].toString().contains("divided anew"), result.text());
    QVERIFY(result.first("recovered")["lost_steps"].toInt(-1) >= 0);  // while it was written
    const CliResult whole =
        cli.run(training("multi-worker-mirrored", "2", result.last()["steps"].toInt()) + uneven);
    QVERIFY2(whole.exit == 0, whole.text());
    const double loss = whole.last()["train_loss"].toDouble();
    QVERIFY2(std::abs(result.last()["train_loss"].toDouble() - loss) < 1e-5 * loss,
             (QJsonDocument(result.last()).toJson(QJsonDocument::Compact) + " and undisturbed " +
              QJsonDocument(whole.last()).toJson(QJsonDocument::Compact)));
    const CliResult late = cli.run({"rebalance", run, "--shares", "2,2", "--apply"});
    QVERIFY2(late.exit == 3 && late.err.contains("has ended"), late.text());
    const CliResult shown = cli.run({"rebalance", run, "--shares", "2,2"});
    QVERIFY2(shown.exit == 0 && !shown.out.contains("--apply"), shown.text());
    QVERIFY(cli.leave());
  }

  void aRunThatRecoversCanBeStopped() {
    const Cli cli;
    const auto process = cli.start(training("multi-worker-mirrored", "2", kEndless));
    QByteArray out;
    QVERIFY(cli.awaitEvent(*process, "step", out));
    const QString run = runOf(out);
    // Twice without a step between them: the next workers start after a pause.
    QElapsedTimer clock;
    clock.start();
    while (out.count("\"event\":\"recovering\"") < 2 && clock.elapsed() < 120000) {
      for (const qint64 worker : cli.workers(run)) ::kill(static_cast<pid_t>(worker), SIGKILL);
      process->waitForReadyRead(10);
      out += process->readAllStandardOutput();
    }
    const CliResult stop = cli.run({"stop", run});
    QVERIFY2(stop.exit == 0, stop.text());
    const CliResult result = cli.finish(*process, out);
    QCOMPARE(result.last()["status"].toString(), QString("stopped"));
    QVERIFY(cli.leave());
    QTRY_VERIFY_WITH_TIMEOUT(cli.processes(run).isEmpty(), 60000);
  }

  // The coordinating node answers, and the others do not: that is told as it is, and the run is not
  // taken for one out of reach.
  void aStopThatTheOtherNodesDoNotConfirmIsToldSo() {
    const Cli cli;
    const auto process = cli.start(training("multi-worker-mirrored", "3", kEndless)
                                   << "--set"
                                   << "recovery.policy=shrink"
                                   << "--set"
                                   << "recovery.heartbeat_ms=20000");  // nobody is silent meanwhile
    QByteArray out;
    QVERIFY2(cli.awaitEvent(*process, "step", out), out.right(3000));
    const QString run = runOf(out);
    QList<pid_t> frozen;
    for (const QString& found : cli.processes(run))
      if (found.contains("lockstep-agent supervise") && !found.contains("/local/1/"))
        frozen.push_back(found.section(' ', 0, 0).toInt());
    const auto thaw = [&] {
      for (const pid_t pid : frozen) ::kill(pid, SIGCONT);
    };
    const auto thawAtLast = qScopeGuard(thaw);
    QCOMPARE(frozen.size(), qsizetype{2});
    for (const pid_t pid : frozen) ::kill(pid, SIGSTOP);
    const CliResult asked = cli.run({"stop", run});
    QVERIFY2(asked.exit == 3, asked.text());
    for (const QString& text :
         {QString("it is not known whether run %1 stops"), QString("fewer than half of its nodes"),
          QString("lockstep attach %1"), QString("lockstep stop %1"), QString("lockstep kill %1")})
      QVERIFY2(asked.err.contains(text.contains('%') ? text.arg(run).toUtf8() : text.toUtf8()),
               asked.text());
    QVERIFY2(!asked.err.contains("out of reach") && !asked.err.contains("--give-up"), asked.text());
    const CliResult runs = cli.run({"runs"});
    QVERIFY2(!runs.out.contains("unreachable"), runs.text());
    thaw();
    const CliResult again = cli.run({"stop", run});
    QVERIFY2(again.exit == 0, again.text());
    const CliResult result = cli.finish(*process, out);
    QVERIFY2(result.exit == 130, result.text());
    QCOMPARE(result.last()["status"].toString(), QString("stopped"));
    QVERIFY(cli.leave());
    QTRY_VERIFY_WITH_TIMEOUT(cli.processes(run).isEmpty(), 60000);
  }
};

QTEST_GUILESS_MAIN(CliRecoveryTest)
#include "cli_recovery_test.moc"
