// Programs of the user's own that fail, hang, are stopped or excluded: what becomes of the run, and
// of their processes.
#include <signal.h>

#include <QElapsedTimer>
#include <QRegularExpression>
#include <QTest>

#include "tests/app/cli/program_runs.h"
#include "tests/support/pytorch.h"

using namespace lockstep::test;

namespace {

// The processes of a run's program, which its own says.
QList<qint64> pidsIn(const QByteArray& out, const QByteArray& word) {
  QList<qint64> found;
  static const QRegularExpression number("^[0-9]+");
  for (qsizetype at = out.indexOf(word); at >= 0; at = out.indexOf(word, at + 1))
    found << number.match(QString::fromUtf8(out.mid(at + word.size(), 10))).captured().toLongLong();
  return found;
}

}  // namespace

class CliProgramRecoveryTest : public QObject, ProgramRuns {
  Q_OBJECT

 private Q_SLOTS:
  void initTestCase() {
    if (!QFile::exists("/usr/bin/python3")) QSKIP("there is no /usr/bin/python3");
  }

  // It would fail again.
  void aProgramThatFailsSoonIsNotRestarted() {
    const CliResult result = cli_.run(program(R"(
print("reading the data")
if rank == 1: sys.exit("boom: no file {data}")
time.sleep(60)
)",
                                              3));
    QVERIFY2(result.exit == 1, result.text());
    QVERIFY(result.all("recovering").isEmpty());
    const QJsonObject error = result.first("error");
    QCOMPARE(error["node"].toString(), QString("local2"));
    QCOMPARE(error["rank"].toInt(), 1);
    QCOMPARE(error["what"].toString(), QString("the program exited with code 1"));
    QVERIFY2(error["why"].toString().contains("reading the data\nboom: no file {data}"),
             qPrintable(error["why"].toString()));
    QCOMPARE(result.last()["status"].toString(), QString("failed"));
  }

  // Another has rank 0's port by the time that the program wants it: all start again with another.
  void aTakenPortIsReplaced_data() {
    QTest::addColumn<QByteArray>("meet");
    QTest::newRow("by its own sockets") << QByteArray(R"(
if rank == 0:
    server = socket.create_server((os.environ["MASTER_ADDR"], port))
    server.accept()[0].sendall(b"x")
else:
    while True:
        try:
            if socket.create_connection((os.environ["MASTER_ADDR"], port)).recv(1): break
        except OSError: pass
        time.sleep(0.05)
)");
    QTest::newRow("PyTorch") << QByteArray(R"(
import torch.distributed as dist
dist.init_process_group("gloo"); dist.barrier()
)");
  }
  void aTakenPortIsReplaced() {
    QFETCH(QByteArray, meet);
    if (meet.contains("torch") && !hasPyTorch()) QSKIP("/usr/bin/python3 has no PyTorch with Gloo");
    const CliResult result = cli_.run(program(R"(
port = int(os.environ["MASTER_PORT"])
print("port", port, flush=True)
other = socket.create_server(("", port)) if rank == 0 and attempt == 0 else None
)" + meet + "print('met')\n",
                                              2));
    QVERIFY2(result.exit == 0, result.text());
    QCOMPARE(result.all("recovering").size(), qsizetype{1});
    QList<QByteArray> ports[2];
    for (const int rank : {0, 1}) {
      for (const QByteArray& line : linesOf(result, rank))
        if (line.startsWith("port ")) ports[rank] << line;
      QVERIFY2(linesOf(result, rank).contains("met"), result.text());
    }
    QVERIFY2(ports[0].size() == 2 && ports[0][0] != ports[0][1], result.text());
    QCOMPARE(ports[0].last(), ports[1].last());
  }

  void aRunGoesOnAfterAFailure_data() {
    QTest::addColumn<QByteArray>("failure");  // in a step
    QTest::addColumn<int>("rank");            // that fails
    QTest::addColumn<QString>("cause");
    QTest::newRow("exit") << QByteArray("sys.exit(7)") << 0 << "the program exited with code 7";
    QTest::newRow("exit of a rank without values")
        << QByteArray("sys.exit(7)") << 2 << "the program exited with code 7";
    QTest::newRow("the program is killed")
        << QByteArray("os.kill(os.getpid(), 9)") << 1 << "the program was killed by signal 9";
    QTest::newRow("its worker is killed") << QByteArray("os.kill(os.getppid(), 9); time.sleep(30)")
                                          << 1 << "the worker of rank 1 was killed by signal 9";
    QTest::newRow("crash") << QByteArray("os.abort()") << 1 << "SIGABRT";
  }
  void aRunGoesOnAfterAFailure() {
    QFETCH(QByteArray, failure);
    QFETCH(int, rank);
    QFETCH(QString, cause);
    // The others do not end before it, however late it starts.
    const QByteArray during = "    if attempt == 0 and rank == " + QByteArray::number(rank) +
                              ":\n        if step == 20: " + failure +
                              "\n    elif attempt == 0 and step == 30: time.sleep(1000)\n";
    QElapsedTimer clock;
    clock.start();
    const auto process = cli_.start(program(counting(40, during), 3));
    QByteArray out;
    QVERIFY2(cli_.awaitEvent(*process, "step", out), out);
    const double most = mostRecoverySeconds(clock.elapsed());
    const CliResult result = cli_.finish(*process, out);
    QVERIFY2(result.exit == 0, result.text());
    const auto recovering = result.all("recovering"), recovered = result.all("recovered");
    QVERIFY2(recovering.size() == 1 && recovered.size() == 1, result.text());
    QVERIFY2(recovering[0]["cause"].toString().contains(cause), result.text());
    QVERIFY2(recovered[0]["seconds"].toDouble() < most, result.text());
    // The failed rank goes on after what it saved.
    QVERIFY2(linesOf(result, rank).contains("attempt 0 from 1"), result.text());
    QVERIFY2(linesOf(result, rank).contains("attempt 1 from 21"), result.text());
    int last = 0;
    for (const QJsonObject& step : result.all("step")) {
      QVERIFY(step["step"].toInt() > last);
      last = step["step"].toInt();
    }
    QCOMPARE(last, 40);
    QVERIFY(result.last()["lost_seconds"].toDouble() > 0);
  }

  void failuresEndTheRunWherePolicySaysSo() {
    const CliResult result =
        cli_.run(program(counting(1000, "    if step == 10 and rank == 1: sys.exit(7)\n"), 2, {},
                         "recovery: {policy: none}\n"));
    QVERIFY2(result.exit == 1, result.text());
    QVERIFY(result.all("recovering").isEmpty());
    QVERIFY2(result.first("error")["what"].toString().contains("exited with code 7"),
             result.text());
  }

  void restartsAreCounted() {
    const CliResult result = cli_.run(program(
        counting(1000, "    if step % 10 == 0: sys.exit(7)\n"), 1, "  restart: {max: 1}\n"));
    QVERIFY2(result.exit == 1, result.text());
    QCOMPARE(result.all("recovering").size(), qsizetype{1});
    QVERIFY2(result.first("error")["why"].toString().contains("which workload.restart.max allows"),
             result.text());
  }

  // After an exit the run restarts; the hang then ends it, with where the rank is.
  void otherFailuresThanThoseNamedEndTheRun() {
    const CliResult result =
        cli_.run(program(R"(
def load_batch():
    time.sleep(1000)
print("step 1 loss 1")
if attempt == 0: sys.exit(7)
load_batch()
)",
                         1, "  restart: {on: [exit, node_lost], hang_seconds: 5}\n"));
    QVERIFY2(result.exit == 1, result.text());
    QCOMPARE(result.all("recovering").size(), qsizetype{1});
    const QJsonObject error = result.first("error");
    QVERIFY2(error["what"].toString().startsWith("the program stands still"), result.text());
    QVERIFY2(error["why"].toString().contains("rank 0 is in load_batch, main.py:"), result.text());
  }

  // Also where a shell that waits for the program ends first.
  void aStoppedProgramSaves_data() {
    QTest::addColumn<QByteArray>("before");
    QTest::newRow("the program") << QByteArray();
    QTest::newRow("below a shell") << QByteArray(R"(
if len(sys.argv) < 2:
    sys.exit(subprocess.run(["sh", "-c", f"{sys.executable} main.py inner; echo over"]).returncode)
)");
  }
  void aStoppedProgramSaves() {
    QFETCH(QByteArray, before);
    // No step is told before both would hear that they are to leave.
    const QByteArray listens = cli_.path(QString("listens%1-").arg(count_)).toUtf8();
    const auto process =
        cli_.start(program(before + R"(
def leave(*_):
    print("\nsaving"); time.sleep(2); open("at-end", "w").write("whole"); sys.exit(0)
signal.signal(signal.SIGTERM, leave)
)" + "open(f'" + listens + "{rank}', 'w')\nwhile not os.path.exists(f'" +
                               listens + "{1 - rank}'): time.sleep(0.05)\n" + counting(100000),
                           2));
    QByteArray out;
    QVERIFY(cli_.awaitEvent(*process, "step", out));
    const QString run = runOf(out);
    const CliResult stop = cli_.run({"stop", run});
    QVERIFY2(stop.exit == 0, stop.text());
    const CliResult result = cli_.finish(*process, out);
    QCOMPARE(result.last()["status"].toString(), QString("stopped"));
    QVERIFY2(result.all("error").isEmpty(), result.text());
    for (const int node : {1, 2}) {
      QCOMPARE(read(copied(run, node) + "at-end"), QByteArray("whole"));
      QVERIFY2(linesOf(result, node - 1).contains("saving"), result.text());
    }
  }

  // A program that stands still is ended, with where each rank is, and started again.
  void aHangIsTold_data() {
    QTest::addColumn<QByteArray>("others");
    QTest::addColumn<QString>("where");
    QTest::newRow("the others wait")
        << QByteArray("wait_for_all()") << "ranks 0, 2 are in wait_for_all, main.py:";
    QTest::newRow("another has ended") << QByteArray("sys.exit(0) if rank == 0 else wait_for_all()")
                                       << "rank 2 is in wait_for_all, main.py:";
  }
  void aHangIsTold() {
    QFETCH(QByteArray, others);
    QFETCH(QString, where);
    const CliResult result = cli_.run(program(R"(
def wait_for_all():
    while True: time.sleep(0.1)
def load_batch():
    time.sleep(1000)
print("step 1 loss 1")
if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    load_batch() if rank == 1 else )" + others + "\n",
                                              3, "  restart: {hang_seconds: 5}\n"));
    QVERIFY2(result.exit == 0, result.text());
    const auto recovering = result.all("recovering");
    QCOMPARE(recovering.size(), qsizetype{1});
    const QString cause = recovering[0]["cause"].toString(), why = recovering[0]["why"].toString();
    QVERIFY2(cause.startsWith("the program stands still"), qPrintable(cause));
    QVERIFY2(why.contains("rank 1 is in load_batch, main.py:"), qPrintable(why));
    QVERIFY2(why.contains(where), qPrintable(why));
    QCOMPARE(why.contains("rank 0 has ended"), where.startsWith("rank 2"));
  }

  // Nor of those it started itself, also where it is the supervisor that is lost.
  void noProcessStays_data() {
    QTest::addColumn<bool>("asked");
    QTest::newRow("the run is killed") << true;
    QTest::newRow("the supervisor is killed") << false;
  }
  void noProcessStays() {
    QFETCH(bool, asked);
    QByteArray script = R"(
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for apart in (False, ASKED):
    child = subprocess.Popen(["sleep", "100"], start_new_session=apart)
    print(f"child={child.pid}")
print(f"own={os.getpid()}")
print("step 1 loss 1")
time.sleep(100)
)";
    // The supervisor ends what has a session of its own.
    script.replace("ASKED", asked ? "True" : "False");
    const auto process = cli_.start(program(script, 2, {}, "recovery: {policy: none}\n"));
    QByteArray out;
    QVERIFY(cli_.awaitEvent(*process, "step", out));
    const QString run = runOf(out);
    QTRY_VERIFY_WITH_TIMEOUT(
        (out += process->readAllStandardOutput(), pidsIn(out, "own=").size() == 2), 60000);
    const QList<qint64> pids = pidsIn(out, "own=") + pidsIn(out, "child=");
    QCOMPARE(pids.size(), qsizetype{6});
    for (const qint64 pid : pids) QVERIFY(isThere(pid));
    if (asked) {
      QCOMPARE(cli_.run({"kill", run}).exit, 0);
    } else {
      for (const qint64 worker : cli_.workers(run)) {
        const QByteArray status = read(QString("/proc/%1/status").arg(worker));
        static const QRegularExpression parent("PPid:\\t([0-9]+)");
        ::kill(parent.match(QString::fromUtf8(status)).captured(1).toInt(), SIGKILL);
      }
    }
    for (const qint64 pid : pids) QTRY_VERIFY_WITH_TIMEOUT(!isThere(pid), 60000);
    QTRY_VERIFY_WITH_TIMEOUT(cli_.workers(run).isEmpty(), 60000);
    if (!asked) cli_.run({"kill", run, "--give-up"});
    const CliResult result = cli_.finish(*process, out);
    QVERIFY2(result.exit >= 0, result.text());
  }

  // Processes that the program has left to themselves do not stay as zombies once they end.
  void whatAProgramLeavesIsReaped() {
    const auto process = cli_.start(program(R"(
for _ in range(20): subprocess.run(["sh", "-c", "sleep 0.2 &"])
print("left", flush=True)
time.sleep(600)
)",
                                            1));
    QByteArray out;
    QVERIFY2(cli_.awaitEvent(*process, "output", out), out);
    const QString run = runOf(out);
    const auto workers = cli_.workers(run);
    QCOMPARE(workers.size(), qsizetype{1});
    static const QRegularExpression parent("PPid:\\t([0-9]+)");
    const QByteArray status = read(QString("/proc/%1/status").arg(workers[0]));
    const QString supervisor = parent.match(QString::fromUtf8(status)).captured(1);
    const auto children = [&] {
      return read(QString("/proc/%1/task/%1/children").arg(supervisor)).trimmed();
    };
    QTRY_COMPARE_WITH_TIMEOUT(children(), QByteArray::number(workers[0]), 60000);
    QCOMPARE(cli_.run({"kill", run}).exit, 0);
    (void)cli_.finish(*process, out);
  }

  // One rank fails, and another does not leave: it has a moment to.
  void aProgramThatDoesNotLeaveIsEnded() {
    QElapsedTimer timer;
    timer.start();
    QByteArray script = R"(
signal.signal(signal.SIGTERM, lambda *_: print("\nstays"))
print("ready")
if rank == 0: open(READY, "w")
while rank == 1 and not os.path.exists(READY): time.sleep(0.05)
if rank == 1: time.sleep(1); sys.exit(3)
for _ in range(1000): time.sleep(0.1)
)";
    script.replace("READY", "'" + cli_.path("ready").toUtf8() + "'");
    const CliResult result = cli_.run(program(script, 2));
    QVERIFY2(result.exit == 1, result.text());
    QVERIFY2(timer.elapsed() < 60000, result.text());
    QVERIFY2(linesOf(result, 0).contains("stays"), result.text());
    QVERIFY2(result.first("error")["what"].toString().contains("exited with code 3"),
             result.text());
  }

  void nodesAreExcludedAndRanksRestartedOnRequest() {
    const auto process =
        cli_.start(program(counting(100000) + "    if os.path.exists('end'): break", 3));
    QByteArray out;
    QVERIFY(cli_.awaitEvent(*process, "step", out));
    const QString run = runOf(out);
    const CliResult refused = cli_.run({"checkpoint", run});
    QVERIFY2(refused.exit == 3 && refused.err.contains("its program writes its own"),
             refused.text());
    const CliResult restart = cli_.run({"restart", run});
    QVERIFY2(restart.exit == 0, restart.text());
    QVERIFY(cli_.awaitEvent(*process, "recovered", out));
    out.replace("\"event\":\"recovered\"", "\"event\":\"first recovered\"");
    const CliResult exclude = cli_.run({"exclude", run, "local3"});
    QVERIFY2(exclude.exit == 0, exclude.text());
    QVERIFY2(cli_.awaitEvent(*process, "recovered", out), out.right(3000));
    QTRY_COMPARE_WITH_TIMEOUT(cli_.workers(run).size(), qsizetype{2}, 60000);
    for (const int node : {1, 2}) {
      QFile file(copied(run, node) + "end");
      QVERIFY(file.open(QIODevice::WriteOnly));
    }
    const CliResult result = cli_.finish(*process, out);
    QVERIFY2(result.exit == 0, result.text());
    const auto recovering = result.all("recovering");
    QCOMPARE(recovering.size(), qsizetype{2});
    QCOMPARE(recovering[0]["cause"].toString(), QString("a restart of all ranks was requested"));
    QCOMPARE(recovering[1]["cause"].toString(), QString("node local3 was excluded on request"));
    QCOMPARE(recovering[1]["world"].toInt(), 2);
    QVERIFY2(!result.out.contains("after the next checkpoint") &&
                 !restart.out.contains("checkpoint") && !exclude.out.contains("checkpoint"),
             restart.text() + exclude.text());
  }
};

QTEST_GUILESS_MAIN(CliProgramRecoveryTest)
#include "cli_program_recovery_test.moc"
