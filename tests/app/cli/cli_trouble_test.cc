// What goes wrong, provoked: interrupts, kills, missing files.
#include <signal.h>

#include <QTest>

#include "tests/app/cli/cli_runner.h"

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
                              qPrintable(cli.processes(run).join("\n")), 10000);
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

  void ctrlCStops() {
    const Cli cli;
    const auto process = cli.start(longRun());
    QByteArray out;
    QVERIFY(cli.awaitEvent(*process, "step", out));
    ::kill(static_cast<pid_t>(process->processId()), SIGINT);
    const CliResult result = cli.finish(*process, out, 60000);
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
    const CliResult result = cli.finish(*process, out, 60000);
    QVERIFY2(result.exit == 130 || result.exit == 1, result.text());
    QCOMPARE(result.last()["event"].toString(), QString("finished"));
    checkNothingStays(cli, "none");
  }

  void ctrlCDuringTheLaunchCancels() {
    const Cli cli;
    const auto process = cli.start(longRun());
    QVERIFY(cli.awaitError(*process, "connecting"));
    ::kill(static_cast<pid_t>(process->processId()), SIGINT);
    const CliResult result = cli.finish(*process, {}, 60000);
    QVERIFY2(result.exit == 130, result.text());
    QCOMPARE(result.last()["status"].toString(), QString("stopped"));
    checkNothingStays(cli, "none");
  }

  void clientKilledRunGoesOn() {
    const Cli cli;
    const auto process = cli.start({"run", example("fashion-mlp"), "--json", "--local", "2",
                                    "--set", "training.batch=200", "--set", "training.epochs=3"});
    QByteArray out;
    QVERIFY(cli.awaitEvent(*process, "step", out));
    process->kill();
    const CliResult cut = cli.finish(*process, out);
    const QString run = cut.first("started")["run"].toString();
    QVERIFY(!run.isEmpty());
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
    checkNothingStays(cli, run);
  }

  void workerKilledEndsTheRun() {
    const Cli cli;
    const auto process = cli.start(longRun());
    QByteArray out;
    QVERIFY(cli.awaitEvent(*process, "step", out));
    const QByteArray started = out.split('\n').front();
    const qsizetype at = started.indexOf("\"run\":\"") + 7;
    const QString run = QString::fromUtf8(started.mid(at, started.indexOf('"', at) - at));
    const auto workers = cli.workers(run);
    QCOMPARE(workers.size(), 2);
    ::kill(static_cast<pid_t>(workers.back()), SIGKILL);
    const CliResult result = cli.finish(*process, out, 60000);
    QVERIFY2(result.exit == 1, result.text());
    QCOMPARE(result.last()["status"].toString(), QString("failed"));
    const QJsonObject error = result.first("error");
    QVERIFY2(error["rank"].toInt(-1) >= 0, result.text());
    QVERIFY2((error["what"].toString() + error["why"].toString()).contains("SIGKILL") ||
                 (error["what"].toString() + error["why"].toString()).contains("signal 9"),
             result.text());
    checkNothingStays(cli, run);
  }
};

QTEST_GUILESS_MAIN(CliTroubleTest)
#include "cli_trouble_test.moc"
