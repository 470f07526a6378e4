// What goes wrong, provoked: interrupts, kills, missing files.
#include <signal.h>
#include <sys/mount.h>
#include <unistd.h>

#include <QDir>
#include <QElapsedTimer>
#include <QFile>
#include <QScopeGuard>
#include <QTest>
#include <optional>

#include "app/history/history.h"
#include "app/history/run_table.h"
#include "engine/base/file.h"
#include "tests/app/cli/cli_runner.h"
#include "tests/support/run_file.h"

using namespace lockstep::test;

namespace {
QStringList longRun(const QStringList& more = {}) {
  return QStringList{"run",   example("fashion-mlp"), "--json", "--local", "2",
                     "--set", "training.epochs=1000"} +
         more;
}
}  // namespace

class CliTroubleTest : public QObject {
  Q_OBJECT

 private:
  static void checkNothingStays(const Cli& cli, const QString& run) {
    QVERIFY(cli.leave());
    QTRY_VERIFY2_WITH_TIMEOUT(cli.processes(run).isEmpty(),
                              qPrintable(cli.processes(run).join("\n")), 60000);
  }
  // A run of 900 steps whose client is killed in the first of them; "": it was not launched.
  static QString leftEarly(const Cli& cli) {
    const auto process = cli.start({"run", example("fashion-mlp"), "--json", "--local", "2",
                                    "--set", "training.batch=200", "--set", "training.epochs=3"});
    QByteArray out;
    if (!cli.awaitEvent(*process, "step", out)) return {};
    process->kill();
    return cli.finish(*process, out).first("started")["run"].toString();
  }
  // Every step of that run once, in its output and in the history.
  static void checkComplete(const Cli& cli, const QString& run) {
    const CliResult result = cli.run({"attach", run, "--json", "--every", "1"});
    QVERIFY2(result.exit == 0, result.text());
    QCOMPARE(result.last()["status"].toString(), QString("succeeded"));
    const auto steps = result.all("step");
    QCOMPARE(steps.size(), 900);
    for (int i = 0; i < steps.size(); ++i) QCOMPARE(steps[i]["step"].toInt(), i + 1);
    QCOMPARE(result.all("epoch").size(), 3);
    // And once more from the history alone.
    const CliResult again = cli.run({"attach", run, "--json", "--every", "1"});
    QCOMPARE(again.exit, 0);
    QCOMPARE(again.all("step"), steps);
    for (const char* curve : {"loss", "rank/0/step", "rank/1/step"}) {
      const CliResult points =
          cli.run({"history", "export", run, "--format", "csv", "--curve", curve});
      QCOMPARE(points.out.count('\n'), 901);  // with the names of the columns
    }
  }

 private Q_SLOTS:
  void missingDataFileIsTheNodes() {
    const Cli cli;
    const CliResult result = cli.run({"run", example("fashion-mlp"), "--json", "--local", "2",
                                      "--set", "data.train.images=/nowhere/train.gz"});
    QVERIFY2(result.exit == 3, result.text());
    QVERIFY(result.onlyJson);
    const QJsonObject error = result.first("error");
    QVERIFY2(error["node"].toString().startsWith("local"), result.text());
    QVERIFY2((error["what"].toString() + error["why"].toString()).contains("/nowhere/train.gz"),
             result.text());
    QVERIFY(!error["next"].toString().isEmpty());
    QCOMPARE(result.last()["status"].toString(), QString("failed"));
    checkNothingStays(cli, "none");
  }

  void noCheckpointIsToldBeforehand() {
    const Cli cli;
    const CliResult result = cli.run(
        {"run", example("fashion-mlp"), "--json", "--local", "2", "--resume", cli.path("nothing")});
    QVERIFY2(result.exit == 3, result.text());
    const QJsonObject error = result.first("error");
    QCOMPARE(error["node"].toString(), QString("local1"));
    QCOMPARE(error["what"].toString(), "there is no folder " + cli.path("nothing"));
    QVERIFY(!error["next"].toString().isEmpty());
    QVERIFY(result.first("started").isEmpty());
    QCOMPARE(result.last()["status"].toString(), QString("failed"));
    QVERIFY(cli.run({"runs"}).out.isEmpty());
    checkNothingStays(cli, "none");
  }

  void agentsKilledRunGoesOn() {
    const Cli cli;
    const auto process = cli.start({"run", example("fashion-mlp"), "--json", "--every", "1",
                                    "--local", "2", "--set", "training.max_steps=1500"});
    QByteArray out;
    QVERIFY(cli.awaitEvent(*process, "step", out));
    const auto agents = cli.agents();
    QCOMPARE(agents.size(), 2);
    for (const qint64 agent : agents) ::kill(static_cast<pid_t>(agent), SIGKILL);
    const CliResult result = cli.finish(*process, out);
    QVERIFY2(result.exit == 0, result.text());
    QCOMPARE(result.last()["status"].toString(), QString("succeeded"));
    QCOMPARE(result.all("step").size(), 1500);
    QVERIFY(result.first("error").isEmpty());
    // New agents have taken their places, and know the run.
    const QString run = result.first("started")["run"].toString();
    for (const qint64 agent : cli.agents()) QVERIFY(!agents.contains(agent));
    const CliResult resumed = cli.run({"run", example("fashion-mlp"), "--json", "--local", "2",
                                       "--resume", run, "--set", "training.max_steps=1501"});
    QVERIFY2(resumed.exit == 0, resumed.text());
    checkNothingStays(cli, run);
  }

  void ctrlCStops() {
    const Cli cli;
    const auto process = cli.start(longRun());
    QByteArray out;
    QVERIFY(cli.awaitEvent(*process, "step", out));
    ::kill(static_cast<pid_t>(process->processId()), SIGINT);
    const CliResult result = cli.finish(*process, out);
    QVERIFY2(result.exit == 130, result.text());
    QCOMPARE(result.last()["event"].toString(), QString("finished"));
    QCOMPARE(result.last()["status"].toString(), QString("stopped"));
    QVERIFY(result.last()["steps"].toInt() > 0);
    checkNothingStays(cli, result.first("started")["run"].toString());
  }

  void ctrlCTwiceKills() {
    const Cli cli;
    const auto process = cli.start(longRun());
    QByteArray out;
    QVERIFY(cli.awaitEvent(*process, "step", out));
    const pid_t pid = static_cast<pid_t>(process->processId());
    ::kill(pid, SIGINT);
    QVERIFY(cli.awaitError(*process, "stopping"));  // it has seen the first
    ::kill(pid, SIGINT);
    const CliResult result = cli.finish(*process, out);
    QVERIFY2(result.exit == 130 || result.exit == 1, result.text());
    QCOMPARE(result.last()["event"].toString(), QString("finished"));
    checkNothingStays(cli, "none");
  }

  // With nobody there to kill the run it is left, and summed up with the last step known.
  void ctrlCTwiceLeavesARunOutOfReach() {
    const Cli cli;
    const auto process = cli.start(longRun());
    QByteArray out;
    QVERIFY(cli.awaitEvent(*process, "step", out));
    QByteArray later;  // until a second is told: both ranks have reported some by then
    QVERIFY(cli.awaitEvent(*process, "step", later));
    out += later;
    const QString run = runOf(out);
    QList<pid_t> frozen;
    for (const QString& found : cli.processes(run))
      if (found.contains("lockstep-agent supervise") || found.contains("lockstep-agent serve"))
        frozen.push_back(found.section(' ', 0, 0).toInt());
    const auto thaw = qScopeGuard([&] {
      for (const pid_t pid : frozen) ::kill(pid, SIGCONT);
    });
    QCOMPARE(frozen.size(), 4);
    for (const pid_t pid : frozen) ::kill(pid, SIGSTOP);
    const pid_t client = static_cast<pid_t>(process->processId());
    ::kill(client, SIGINT);
    QVERIFY(cli.awaitError(*process, "Ctrl-C again"));
    ::kill(client, SIGINT);
    const CliResult result = cli.finish(*process, out);
    QVERIFY2(result.exit > 0, result.text());
    const QJsonObject error = result.first("error");
    QVERIFY2(error["what"].toString().contains("could not be killed"), result.text());
    QVERIFY2(error["next"].toString().contains("attach"), result.text());
    QCOMPARE(result.last()["event"].toString(), QString("finished"));
    QVERIFY2(result.last()["steps"].toInt() > 0, result.text());
    for (const pid_t pid : frozen) ::kill(pid, SIGCONT);
    cli.run({"kill", run});
    checkNothingStays(cli, run);
  }

  void ctrlCDuringTheLaunchCancels() {
    const Cli cli;
    const auto process = cli.start(longRun());
    QVERIFY(cli.awaitError(*process, "connecting"));
    ::kill(static_cast<pid_t>(process->processId()), SIGINT);
    const CliResult result = cli.finish(*process, {});
    QVERIFY2(result.exit == 130, result.text());
    QCOMPARE(result.last()["status"].toString(), QString("stopped"));
    checkNothingStays(cli, "none");
  }

  // Ctrl-C, twice, once the coordinator has started the run, of which the launch does not know yet:
  // the run is stopped, also where nobody was to follow it.
  void ctrlCAfterTheStartStops() {
    using namespace lockstep;
    const Cli cli;
    const auto process = cli.start({"run", example("fashion-mlp"), "--json", "--detach",
                                    "--no-benchmark", "--set", "training.epochs=1000"});
    const std::string folder = (cli.home() + "/history").toStdString();
    QTRY_VERIFY_WITH_TIMEOUT(QFile::exists(cli.home() + "/history/history.db"), 60000);
    const auto history = app::History::open(folder);
    QVERIFY2(history.ok(), history.ok() ? "" : history.error().text().c_str());
    std::string run;
    const auto isListed = [&] {
      const auto rows = (*history)->list();
      if (rows.ok() && !rows->empty()) run = rows->front().run;
      return !run.empty();
    };
    QTRY_VERIFY_WITH_TIMEOUT(isListed(), 60000);
    // The launch waits for the history, for 5 s at most: before it commits the run, and after.
    const auto file = openRunFile(folder + "/runs/" + run + ".db");
    const auto list = storage::Database::open(folder + "/history.db", app::historySchemas());
    QVERIFY(file.ok() && list.ok());
    std::optional<storage::Transaction> before(**file), after;
    QVERIFY(before->status().ok());
    const auto isPrepared = [&] {
      const auto documents = (*history)->documents(run);
      return documents.ok() && !documents->nodes.empty();
    };
    QTRY_VERIFY_WITH_TIMEOUT(isPrepared(), 60000);
    after.emplace(**list);
    QVERIFY(after->status().ok());
    before.reset();
    const QString state =
        cli.home() + "/local/1/runs/" + QString::fromStdString(run) + "/local1/state";
    const auto begun = [&] {
      const auto text = readFile(state.toStdString(), 100);
      return text.ok() && text->starts_with("RUNNING");
    };
    QTRY_VERIFY_WITH_TIMEOUT(begun(), 60000);
    QTest::qWait(300);  // for its answer
    const auto client = static_cast<pid_t>(process->processId());
    for (int times = 0; times < 2; ++times) {
      ::kill(client, SIGINT);
      QVERIFY(cli.awaitError(*process, "cancelling the launch"));
    }
    QVERIFY(process->state() == QProcess::Running);
    after.reset();
    const CliResult result = cli.finish(*process, {});
    QVERIFY2(result.exit == 130, result.text());
    QCOMPARE(result.first("started")["run"].toString().toStdString(), run);
    QVERIFY2(result.first("error").isEmpty() && result.err.contains("stopping"), result.text());
    QCOMPARE(result.last()["status"].toString(), QString("stopped"));
    QVERIFY((*history)->row(run)->phase == app::RunState::STOPPED);
    checkNothingStays(cli, QString::fromStdString(run));
  }

  // Nodes that read large files say how far they are, and stop reading when the launch is
  // cancelled.
  void ctrlCWhileNodesReadDataCancels() {
    const Cli cli;
    QStringList command{"run", example("gpt-tiny"), "--json", "--local", "2", "--no-benchmark"};
    for (const char* part : {"train", "evaluate"}) {
      QFile zeros(cli.path(QString(part) + ".txt"));
      QVERIFY(zeros.open(QIODevice::WriteOnly) && zeros.resize(4'200'000'000));  // takes no space
      command << "--set" << QString("data.%1.text=%2").arg(part, zeros.fileName());
    }
    const auto process = cli.start(command);
    QByteArray out;
    QVERIFY2(cli.awaitEvent(*process, "data", out), out + process->readAllStandardError());
    QVERIFY(cli.awaitError(*process, "checking data: waiting for local"));
    QElapsedTimer timer;
    timer.start();
    ::kill(static_cast<pid_t>(process->processId()), SIGINT);
    const CliResult result = cli.finish(*process, out);
    QVERIFY2(timer.elapsed() < 30000, qPrintable(QString::number(timer.elapsed())));
    QVERIFY2(result.exit == 130, result.text());
    const QJsonObject told = result.first("data");
    QVERIFY2(told["node"].toString().startsWith("local"), result.text());
    QVERIFY2(told["file"].toString().endsWith(".txt"), result.text());
    QCOMPARE(told["activity"].toString(), QString("hashing"));
    QVERIFY(told["done"].toDouble() > 0 && told["done"].toDouble() <= told["total"].toDouble());
    QCOMPARE(told["total"].toDouble(), 4'200'000'000.0);
    QCOMPARE(result.last()["status"].toString(), QString("stopped"));
    checkNothingStays(cli, "none");
  }

  // A run of another version goes on, and is not followed by this one.
  void aRunOfAnotherVersionIsNotFollowed() {
    const Cli cli;
    const CliResult launched = cli.run({"run", example("fashion-mlp"), "--json", "--local", "1",
                                        "--detach", "--set", "training.epochs=1000"});
    QVERIFY2(launched.exit == 0, launched.text());
    const QString run = launched.first("started")["run"].toString();
    QFile file(cli.home() + "/local/1/runs/" + run + "/local1/supervisor");
    QVERIFY(file.open(QIODevice::ReadWrite));
    const QByteArray own = file.readAll();
    const QByteArray other = own.split('\n').mid(0, 3).join('\n') + "\n98 99 v99\n\n";
    QVERIFY(file.resize(0) && file.seek(0) && file.write(other) == other.size() && file.flush());
    for (const char* command : {"attach", "checkpoint", "stop"}) {
      const CliResult result = cli.run({command, run, "--json"});
      QVERIFY2(result.exit == 3, result.text());
      const QJsonObject error = result.first("error");
      QVERIFY2(error["what"].toString().startsWith("the run's supervisor speaks protocol 98 to 99"),
               result.text());
      QCOMPARE(error["node"].toString(), QString("local1"));
      QVERIFY(!error["next"].toString().isEmpty());
    }
    QVERIFY(file.resize(0) && file.seek(0) && file.write(own) == own.size() && file.flush());
    const CliResult stopped = cli.run({"stop", run, "--json"});
    QVERIFY2(stopped.exit == 0, stopped.text());
    checkNothingStays(cli, run);
  }

  void clientKilledRunGoesOn() {
    const Cli cli;
    const QString run = leftEarly(cli);
    QVERIFY(!run.isEmpty());
    checkComplete(cli, run);
    checkNothingStays(cli, run);
  }

  // The client comes back when the run is long over: its agents and supervisors have left.
  void clientKilledAndBackAfterTheEnd() {
    const Cli cli;
    const QString run = leftEarly(cli);
    QVERIFY(!run.isEmpty());
    QTRY_VERIFY_WITH_TIMEOUT(cli.workers(run).isEmpty(), 60000);
    QTRY_VERIFY_WITH_TIMEOUT(cli.leave(), 60000);  // not before the end is recorded
    QTRY_VERIFY_WITH_TIMEOUT(cli.processes(run).isEmpty(), 60000);
    const CliResult before =
        cli.run({"history", "export", run, "--format", "csv", "--curve", "loss"});
    QVERIFY2(before.out.count('\n') < 900, before.text());
    checkComplete(cli, run);
    checkNothingStays(cli, run);
  }

  // The disk of a node fills up in the middle: no checkpoint can be written.
  void fullDiskEndsTheRun() {
    if (::geteuid() != 0) QSKIP("mounting a small tmpfs needs root");
    const Cli cli;
    const QString workdir = cli.home() + "/local/1";
    QVERIFY(QDir().mkpath(workdir));
    if (::mount("lockstep-test", qPrintable(workdir), "tmpfs", 0, "size=48m") != 0)
      QSKIP("a tmpfs cannot be mounted here");
    const auto unmount = qScopeGuard([&] { ::umount2(qPrintable(workdir), MNT_DETACH); });
    const auto process = cli.start(longRun());
    QByteArray out;
    QVERIFY2(cli.awaitEvent(*process, "step", out), out + process->readAllStandardError());
    QFile filler(workdir + "/filler");
    QVERIFY(filler.open(QIODevice::WriteOnly | QIODevice::Unbuffered));
    const QByteArray block(4096, 'x');
    while (filler.write(block) == block.size()) {
    }
    ::kill(static_cast<pid_t>(process->processId()), SIGINT);
    const CliResult result = cli.finish(*process, out);
    QVERIFY2(result.exit == 1, result.text());
    QCOMPARE(result.last()["status"].toString(), QString("failed"));
    const QJsonObject error = result.first("error");
    QCOMPARE(error["node"].toString(), QString("local1"));
    QVERIFY2((error["what"].toString() + error["why"].toString()).contains("No space left"),
             result.text());
    QVERIFY2(!error["next"].toString().isEmpty(), result.text());
    checkNothingStays(cli, result.first("started")["run"].toString());
  }

  // The disk of the history fills up: that is what is said, and once there is space, the run is
  // kept.
  void aFullHistoryIsNotADamagedOne() {
    if (::geteuid() != 0) QSKIP("mounting a small tmpfs needs root");
    const Cli cli;
    const QString history = cli.home() + "/history";
    QVERIFY(QDir().mkpath(history));
    if (::mount("lockstep-test", qPrintable(history), "tmpfs", 0, "size=8m") != 0)
      QSKIP("a tmpfs cannot be mounted here");
    const auto unmount = qScopeGuard([&] { ::umount2(qPrintable(history), MNT_DETACH); });
    const auto process = cli.start(longRun());
    QByteArray out;
    QVERIFY2(cli.awaitEvent(*process, "step", out), out + process->readAllStandardError());
    QFile filler(history + "/filler");
    QVERIFY(filler.open(QIODevice::WriteOnly | QIODevice::Unbuffered));
    const QByteArray block(4096, 'x');
    while (filler.write(block) == block.size()) {
    }
    QVERIFY2(cli.awaitEvent(*process, "error", out), out);
    ::kill(static_cast<pid_t>(process->processId()), SIGINT);
    const CliResult result = cli.finish(*process, out);
    const QString run = result.first("started")["run"].toString();
    QCOMPARE(result.last()["status"].toString(), QString("stopped"));
    const QJsonObject error = result.all("error").last();
    QCOMPARE(error["what"].toString(), "the history has not kept run " + run);
    QCOMPARE(error["code"].toString(), QString("resource-exhausted"));
    QVERIFY2(
        error["why"].toString().contains("full") && !error["why"].toString().contains("damaged"),
        result.text());
    QVERIFY2(error["next"].toString().contains("attach " + run), result.text());
    QVERIFY(QFile::remove(history + "/filler"));
    const CliResult attached = cli.run({"attach", run, "--json"});
    QCOMPARE(attached.last()["status"].toString(), QString("stopped"));
    checkNothingStays(cli, run);
  }

  void workerKilledEndsTheRun() {
    const Cli cli;
    const auto process = cli.start(longRun({"--set", "recovery.policy=none"}));
    QByteArray out;
    QVERIFY(cli.awaitEvent(*process, "step", out));
    const QString run = runOf(out);
    for (const char* rank : {"0", "1"})  // each has reported steps to its own node
      QTRY_VERIFY_WITH_TIMEOUT(cli.run({"history", "export", run, "--format", "csv", "--curve",
                                        QString("rank/%1/step").arg(rank)})
                                       .out.count('\n') > 2,
                               60000);
    const auto workers = cli.workers(run);
    QCOMPARE(workers.size(), 2);
    ::kill(static_cast<pid_t>(workers.back()), SIGKILL);
    const CliResult result = cli.finish(*process, out);
    QVERIFY2(result.exit == 1, result.text());
    QCOMPARE(result.last()["status"].toString(), QString("failed"));
    const QJsonObject error = result.first("error");
    QVERIFY2(error["rank"].toInt(-1) >= 0, result.text());
    QVERIFY2((error["what"].toString() + error["why"].toString()).contains("SIGKILL") ||
                 (error["what"].toString() + error["why"].toString()).contains("signal 9"),
             result.text());
    QVERIFY2(error["node"].toString().startsWith("local"), result.text());
    QVERIFY2(error["step"].toInt(-1) > 0, result.text());
    QVERIFY2(error["why"].toString().contains("its last lines:"), result.text());
    QVERIFY(!error["next"].toString().isEmpty());
    checkNothingStays(cli, run);
  }
};

QTEST_GUILESS_MAIN(CliTroubleTest)
#include "cli_trouble_test.moc"
