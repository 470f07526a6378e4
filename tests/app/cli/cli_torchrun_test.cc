// Programs by torchrun, with two ranks on a node: whose values are whose, torchrun's own restarts,
// and that nothing is left.
#include <signal.h>

#include <QElapsedTimer>
#include <QMap>
#include <QStandardPaths>
#include <QTest>

#include "tests/app/cli/cli_runner.h"
#include "tests/app/cli/program_command.h"

using namespace lockstep::test;

namespace {

// Counts without end, or to 5 where it is started again, once both ranks are there.
const QByteArray kCounts = R"(
again = os.path.exists(f"there{rank}")
open(f"there{rank}", "w").close()
while not os.path.exists(f"there{1 - rank}"): time.sleep(0.05)
for step in range(1, 6 if again else 1000000):
    if rank == 0: print(f"step {step} loss 1", flush=True)
    time.sleep(0.05)
)";

}  // namespace

class CliTorchrunTest : public QObject {
  Q_OBJECT

  Cli cli_;
  int count_ = 0;

  // `options` of torchrun, `env` of the program.
  QStringList program(const QByteArray& script, const QByteArray& options = {},
                      const QByteArray& env = {}, const QByteArray& more = {}) {
    return programCommand(cli_, cli_.path(QString("code%1").arg(++count_)), script, 1,
                          "  launcher: torchrun\n  ranks_per_node: 2\n  command: [torchrun, " +
                              options + "main.py]\n  env: {PET_REDIRECTS: '1', PET_TEE: '1'" + env +
                              "}\n" + more);
  }
  // Processes of the run's program.
  QStringList left(const QString& run) const {
    QStringList out;
    for (const QString& process : cli_.processes(run))
      if (process.contains("main.py")) out << process;
    return out;
  }

 private Q_SLOTS:
  void initTestCase() {
    if (QStandardPaths::findExecutable("torchrun", {"/usr/bin"}).isEmpty())
      QSKIP("there is no /usr/bin/torchrun");
  }

  // A process beyond the node's ranks speaks as the first of them.
  void valuesAreThoseOfTheirRanks_data() {
    QTest::addColumn<QByteArray>("options");
    QTest::addColumn<QByteArray>("more");
    QTest::addColumn<int>("processes");
    QTest::newRow("no hooks") << QByteArray() << QByteArray("  metrics: {hooks: []}\n") << 2;
    QTest::newRow("fewer") << QByteArray("--nproc_per_node, '1', ") << QByteArray() << 1;
    QTest::newRow("more") << QByteArray("--nproc_per_node, '3', ") << QByteArray() << 3;
  }
  void valuesAreThoseOfTheirRanks() {
    QFETCH(QByteArray, options);
    QFETCH(QByteArray, more);
    QFETCH(int, processes);
    const CliResult result = cli_.run(program(R"(
import lockstep
lockstep.log({f"of{rank}": rank}, step=1)
time.sleep(0.5)
)",
                                              options, {}, more));
    QVERIFY2(result.exit == 0, result.text());
    QMap<QString, int> found, expected;
    for (const QJsonObject& line : result.all("scalar"))
      found[line["tag"].toString()] = line["rank"].toInt();
    for (int rank = 0; rank < processes; ++rank)
      expected[QString("of%1").arg(rank)] = rank < 2 ? rank : 0;
    QVERIFY2(found == expected, result.text());
  }

  // Also where another source tells one at the same time, and nothing follows.
  void valuesComeWhenTheyAreTold() {
    const CliResult result = cli_.run(program(R"(
import lockstep
if rank == 1:
    for source in "ab": lockstep._values({"of" + source: 1}, 1, source)
time.sleep(3)
print("three seconds later", flush=True)
)"));
    QVERIFY2(result.exit == 0, result.text());
    qsizetype value = -1, line = -1;
    for (qsizetype at = 0; at < result.events.size(); ++at) {
      const QJsonObject& event = result.events[at];
      if (event["tag"].toString() == "ofb") value = at;
      if (line < 0 && event["text"].toString() == "three seconds later") line = at;
    }
    QVERIFY2(value >= 0 && value < line, result.text());
  }

  // What torchrun passes on goes to the rank that it names: lines and their values.
  void linesAreThoseOfTheirRanks_data() {
    QTest::addColumn<QByteArray>("options");
    QTest::newRow("default") << QByteArray();
    QTest::newRow("a role") << QByteArray("--role, trainer, ");
  }
  void linesAreThoseOfTheirRanks() {
    QFETCH(QByteArray, options);
    const CliResult result = cli_.run(
        program(R"(
for step in range(1, 4): print(f"rank {rank} has {'ab'[rank]}={step}")
time.sleep(1)
)",
                options, {}, "  metrics: {stdout: ['a=(?P<of0>\\d)', 'b=(?P<of1>\\d)']}\n"));
    QVERIFY2(result.exit == 0, result.text());
    QMap<int, int> lines, values;
    for (const QJsonObject& line : result.all("output")) {
      const QString text = line["text"].toString();
      if (!text.contains(" has ")) continue;
      QVERIFY2(text.startsWith(QString("rank %1 ").arg(line["rank"].toInt())), result.text());
      ++lines[line["rank"].toInt()];
    }
    QVERIFY2((lines == QMap<int, int>{{0, 3}, {1, 3}}), result.text());
    for (const QJsonObject& line : result.all("scalar")) {
      const int rank = line["rank"].toInt();
      QCOMPARE(line["tag"].toString(), QString("of%1").arg(rank));
      ++values[rank];
    }
    QVERIFY2((values == QMap<int, int>{{0, 3}, {1, 3}}), result.text());
  }

  // Without a restart of the run. What the new process of a rank tells comes after the steps of the
  // one before.
  void torchrunMayRestartItsRanks() {
    const CliResult result = cli_.run(program(R"(
import lockstep
for number in range(30):
    with lockstep.step(): time.sleep(0.02)
    if attempt == 0 and number == 19:
        open(f"done{rank}", "w").close()
        while rank == 0 or not os.path.exists("done0"): time.sleep(0.05)
        time.sleep(0.3)
        sys.exit(1)
)",
                                              {}, ", PET_MAX_RESTARTS: '1'"));
    QVERIFY2(result.exit == 0, result.text());
    QVERIFY2(result.all("recovering").isEmpty(), result.text());
    const QString run = result.first("started")["run"].toString();
    for (const char* curve : {"rank/0/step", "rank/1/step"}) {
      const CliResult shown =
          cli_.run({"history", "export", run, "--format", "csv", "--curve", curve});
      QVERIFY2(shown.exit == 0, shown.text());
      // All but the first and last of each start, and perhaps these.
      const auto lines = shown.out.trimmed().count('\n');
      QVERIFY2(lines >= 44 && lines <= 52, shown.text());
    }
  }

  void nothingIsLeft_data() {
    QTest::addColumn<QString>("command");
    QTest::newRow("stop") << "stop";
    QTest::newRow("kill") << "kill";
  }
  void nothingIsLeft() {
    QFETCH(QString, command);
    const auto process = cli_.start(program(kCounts));
    QByteArray out;
    QVERIFY2(cli_.awaitEvent(*process, "step", out), out);
    const QString run = runOf(out);
    QVERIFY(left(run).size() >= 3);
    QElapsedTimer timer;
    timer.start();
    const CliResult asked = cli_.run({command, run});
    QVERIFY2(asked.exit == 0, asked.text());
    const CliResult result = cli_.finish(*process, out);
    QVERIFY2(timer.elapsed() < 40000, result.text());  // SIGKILL comes later
    if (command == "stop") QCOMPARE(result.last()["status"].toString(), QString("stopped"));
    QTRY_VERIFY2_WITH_TIMEOUT(left(run).isEmpty(), qPrintable(left(run).join('\n')), 20000);
  }

  // Its ranks are ended at once, and nobody waits for them.
  void torchrunIsKilled() {
    const auto process = cli_.start(program(kCounts));
    QByteArray out;
    QVERIFY2(cli_.awaitEvent(*process, "step", out), out);
    const QString run = runOf(out);
    const QStringList launchers = left(run).filter("torchrun main.py");
    QCOMPARE(launchers.size(), qsizetype{1});
    QCOMPARE(::kill(launchers[0].section(' ', 0, 0).toInt(), SIGKILL), 0);
    const CliResult result = cli_.finish(*process, out);
    QVERIFY2(result.exit == 0, result.text());
    QCOMPARE(result.all("recovering").size(), qsizetype{1});
    QCOMPARE(result.all("recovered").size(), qsizetype{1});
    const CliResult logs = cli_.run({"logs", run});
    QVERIFY2(logs.exit == 0 && !logs.out.contains("has not left after SIGTERM"), logs.text());
    QTRY_VERIFY2_WITH_TIMEOUT(left(run).isEmpty(), qPrintable(left(run).join('\n')), 20000);
  }
};

QTEST_GUILESS_MAIN(CliTorchrunTest)
#include "cli_torchrun_test.moc"
