// Runs of programs of the user's own, on real agents.
#include <signal.h>
#include <sys/resource.h>
#include <sys/utsname.h>

#include <QCryptographicHash>
#include <QDir>
#include <QDirIterator>
#include <QElapsedTimer>
#include <QJsonArray>
#include <QJsonDocument>
#include <QProcess>
#include <QRegularExpression>
#include <QScopeGuard>
#include <QTest>
#include <algorithm>
#include <functional>

#include "tests/app/cli/cli_runner.h"
#include "tests/app/cli/program_command.h"
#include "tests/support/free_port.h"
#include "tests/support/paths.h"
#include "tests/support/pytorch.h"

using namespace lockstep::test;

namespace {

// Counts to `last` from what it saved itself; `during` is what happens in a step.
QByteArray counting(int last, const QByteArray& during = {}) {
  return "saved = f'saved-{rank}'\n"
         "first = int(open(saved).read()) + 1 if os.path.exists(saved) else 1\n"
         "print('attempt', attempt, 'from', first)\n"
         "for step in range(first, " +
         QByteArray::number(last) +
         " + 1):\n"
         "    if rank == 0: print(f'step {step} loss {1 / step:.6f}')\n"
         "    open(saved + '.new', 'w').write(str(step)); os.rename(saved + '.new', saved)\n"
         "    time.sleep(0.02)\n" +
         during;
}

QByteArray read(const QString& path) {
  QFile file(path);
  return file.open(QIODevice::ReadOnly) ? file.readAll() : QByteArray();
}

bool isThere(qint64 pid) {
  const QByteArray status = read(QString("/proc/%1/status").arg(pid));
  return !status.isEmpty() && !status.contains("State:\tZ");
}

QList<QByteArray> linesOf(const CliResult& result, int rank = -1) {
  QList<QByteArray> out;
  for (const QJsonObject& line : result.all("output"))
    if (rank < 0 || line["rank"].toInt() == rank) out << line["text"].toString().toUtf8();
  return out;
}

// The processes of a run's program, which its own says.
QList<qint64> pidsIn(const QByteArray& out, const QByteArray& word) {
  QList<qint64> found;
  static const QRegularExpression number("^[0-9]+");
  for (qsizetype at = out.indexOf(word); at >= 0; at = out.indexOf(word, at + 1))
    found << number.match(QString::fromUtf8(out.mid(at + word.size(), 10))).captured().toLongLong();
  return found;
}

}  // namespace

class CliProgramTest : public QObject {
  Q_OBJECT

  Cli cli_;  // its agents serve one run after another
  int count_ = 0;
  QString folder_;  // of the code of the test

  QStringList program(const QByteArray& script, int nodes, const QByteArray& more = {},
                      const QByteArray& rest = {}) {
    folder_ = cli_.path(QString("code%1").arg(++count_));
    return programCommand(cli_, folder_, script, nodes, more, rest);
  }
  // The history keeps what each node was, and the Python that the program ran with.
  void checkEnvironment(const QString& run) {
    utsname names{};
    uname(&names);
    QProcess python;
    python.start("/usr/bin/python3", {"-c", "import platform; print(platform.python_version())"});
    QVERIFY(python.waitForFinished(30000));
    const QString version = QString::fromUtf8(python.readAllStandardOutput()).trimmed();
    const QJsonArray nodes =
        cli_.run({"history", "show", run, "--json"}).first("run")["nodes"].toArray();
    QCOMPARE(nodes.size(), qsizetype{3});
    for (int i = 0; i < 3; ++i) {
      const QJsonObject node = nodes[i].toObject();
      QCOMPARE(node["node"].toString(), QString("local%1").arg(i + 1));
      QCOMPARE(node["ranks"].toArray(), QJsonArray{i});
      QCOMPARE(node["kernel"].toString(), QString(names.release));
      QVERIFY(node["cores"].toInt() > 0 && node["memory_bytes"].toDouble() > 1e8);
      QVERIFY(!node["os"].toString().isEmpty() && !node["agent"].toString().isEmpty());
      QCOMPARE(node["versions"].toObject()["python"].toString(), version);
    }
  }
  QString copied(const QString& run, int node) const {
    return QString("%1/local/%2/runs/%3/local%2/code/").arg(cli_.home()).arg(node).arg(run);
  }
  QStringList without(const QByteArray& word) const {  // processes of the home without it
    QStringList out;
    for (const QString& process : cli_.processes())
      if (process.contains(word)) out << process;
    return out;
  }

 private Q_SLOTS:
  void initTestCase() {
    if (!QFile::exists("/usr/bin/python3")) QSKIP("there is no /usr/bin/python3");
  }

  void ranksFindEachOther() {
    const QStringList arguments = program(R"(
host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
open("mine.txt", "w").write(str(rank))
os.makedirs("deep/er"); open("deep/er/too", "w").write("x")
if rank == 0:
    server = socket.create_server((host, port))
    peers = [server.accept()[0] for _ in range(world - 1)]
else:
    for _ in range(2000):
        try: peers = [socket.create_connection((host, port))]; break
        except OSError: time.sleep(0.05)
for step in range(1, 11):
    if rank == 0:
        total = sum(struct.unpack("!q", p.recv(8, socket.MSG_WAITALL))[0] for p in peers)
        for p in peers: p.sendall(struct.pack("!q", total))
        print(f"step {step} loss {1 / step:.6f} sum {total}")
    else:
        peers[0].sendall(struct.pack("!q", rank * step))
        total = struct.unpack("!q", peers[0].recv(8, socket.MSG_WAITALL))[0]
print("sum", total)
)",
                                          3);
    const auto before = QDir(folder_).entryInfoList(QDir::Files);
    const CliResult result = cli_.run(arguments);
    QVERIFY2(result.exit == 0 && result.onlyJson, result.text());
    for (int rank = 0; rank < 3; ++rank)
      QVERIFY2(linesOf(result, rank).contains("sum 30"), result.text());
    const auto scalars = result.all("scalar"), steps = result.all("step");
    QCOMPARE(scalars.size(), qsizetype{10});
    QCOMPARE(steps.size(), qsizetype{10});
    for (int i = 0; i < 10; ++i) {
      const double loss = QString::number(1.0 / (i + 1), 'f', 6).toDouble();
      QCOMPARE(scalars[i]["tag"].toString(), QString("loss"));
      QCOMPARE(scalars[i]["source"].toString(), QString("stdout"));
      QCOMPARE(scalars[i]["step"].toInt(), i + 1);
      QCOMPARE(scalars[i]["value"].toDouble(), loss);
      QCOMPARE(steps[i]["step"].toInt(), i + 1);
      QCOMPARE(steps[i]["loss"].toDouble(), loss);
    }
    QCOMPARE(result.last()["status"].toString(), QString("succeeded"));
    QCOMPARE(result.last()["steps"].toInt(), 10);
    QCOMPARE(result.last()["train_loss"].toDouble(), 0.1);
    QCOMPARE(result.first("started")["world"].toInt(), 3);
    for (const QJsonObject& warning : result.all("warning"))  // heartbeats of a busy machine
      QVERIFY2(warning["what"].toString().endsWith(" does not answer"), result.text());
    // Each node has files of its own; the person's folder is as it was.
    const QString run = result.first("started")["run"].toString();
    for (int node = 1; node <= 3; ++node) {
      QCOMPARE(read(copied(run, node) + "mine.txt"), QByteArray::number(node - 1));
      QCOMPARE(read(copied(run, node) + "deep/er/too"), QByteArray("x"));
    }
    checkEnvironment(run);
    const auto after = QDir(folder_).entryInfoList(QDir::Files);
    QCOMPARE(QDir(folder_).entryList(QDir::AllEntries | QDir::Hidden | QDir::NoDotAndDotDot),
             (QStringList{"main.py", "run.yaml"}));
    for (int i = 0; i < before.size(); ++i)
      QCOMPARE(after[i].lastModified(), before[i].lastModified());
  }

  void valuesByPatterns() {
    const CliResult result = cli_.run(program(R"(
for step in (2, 4, 6):
    print(f"[{step}] acc={step / 8} speed={step}k loss {step}")
    print("no value here")
)",
                                              1,
                                              "  metrics:\n    stdout: "
                                              "['\\[(?P<step>\\d+)\\] acc=(?P<acc>\\S+)', "
                                              "'speed=(?P<speed>\\d+)k']\n"));
    QVERIFY2(result.exit == 0, result.text());
    QStringList found;
    for (const QJsonObject& value : result.all("scalar"))
      found << QString("%1 %2 %3")
                   .arg(value["tag"].toString())
                   .arg(value["step"].toInt())
                   .arg(value["value"].toDouble());
    QCOMPARE(found, (QStringList{"acc 2 0.25", "speed 2 2", "acc 4 0.5", "speed 4 4", "acc 6 0.75",
                                 "speed 6 6"}));
    QVERIFY(result.all("step").isEmpty());  // none has a loss
    QCOMPARE(result.last()["steps"].toInt(), 6);
  }

  void valuesOfEventFiles() {
    const CliResult result = cli_.run(program(R"(
table = []
for i in range(256):
    for _ in range(8): i = (i >> 1) ^ (0x82f63b78 if i & 1 else 0)
    table.append(i)
def masked(data):
    crc = 0xffffffff
    for b in data: crc = table[(crc ^ b) & 255] ^ (crc >> 8)
    crc ^= 0xffffffff
    return struct.pack("<I", (((crc >> 15) | (crc << 17)) + 0xa282ead8) & 0xffffffff)
def record(data):
    size = struct.pack("<Q", len(data))
    return size + masked(size) + data + masked(data)
def field(number, data): return bytes([number << 3 | 2, len(data)]) + data
def event(step, tag, value):
    one = field(1, tag) + b"\x15" + struct.pack("<f", value)
    return record(b"\x09" + struct.pack("<d", 1.5) + bytes([0x10, step]) + field(5, field(1, one)))
os.makedirs("logs")
with open("logs/events.out.tfevents.1.host", "wb", buffering=0) as out:
    out.write(record(b"\x09" + struct.pack("<d", 1.5) + field(3, b"brain.Event:2")))
    for step in range(1, 6):
        whole = event(step, b"lr", step / 4) + event(step, b"loss", step / 8)
        out.write(whole[:7]); time.sleep(0.1); out.write(whole[7:])
)",
                                              1, "  metrics: {tensorboard: [logs]}\n"));
    QVERIFY2(result.exit == 0, result.text());
    const auto scalars = result.all("scalar");
    QVERIFY2(scalars.size() == 10, result.text());
    for (int i = 0; i < 10; ++i) {
      const int step = i / 2 + 1;
      QCOMPARE(scalars[i]["source"].toString(), QString("tensorboard"));
      QCOMPARE(scalars[i]["tag"].toString(), QString(i % 2 == 0 ? "lr" : "loss"));
      QCOMPARE(scalars[i]["step"].toInt(), step);
      QCOMPARE(scalars[i]["value"].toDouble(), step / (i % 2 == 0 ? 4.0 : 8.0));
    }
    QCOMPARE(result.all("step").size(), qsizetype{5});
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

  // Of variables named in workload.env_from the program has the values in each generation, and no
  // file has them.
  void secretsComeFromHere() {
    QVERIFY(cli_.run(program("print('before')", 2)).exit == 0);  // agents that lack the variable
    const QByteArray name = "LOCKSTEP_TEST_SECRET", value = "correct-horse-battery";
    const QByteArray from = "  env_from: [" + name + "]\n";
    const CliResult unset = cli_.run(program("pass", 2, from));
    QVERIFY2(unset.exit != 0 && unset.text().contains(name + " is not set"), unset.text());
    qputenv(name.constData(), value);
    // Both say it before the first of them leaves.
    const QByteArray said = cli_.path("said").toUtf8();
    const CliResult result = cli_.run(program(
        "import hashlib\n"
        "print('secret', hashlib.sha256(os.environ['" +
            name + "'].encode()).hexdigest(), flush=True)\nopen(f'" + said + "{rank}', 'w')\n" +
            counting(20, "    while not os.path.exists(f'" + said +
                             "{1 - rank}'): time.sleep(0.05)\n"
                             "    if attempt == 0 and step == 10: os._exit(3)\n"),
        2, from));
    qunsetenv(name.constData());
    QVERIFY2(result.exit == 0, result.text());
    const QByteArray digest =
        "secret " + QCryptographicHash::hash(value, QCryptographicHash::Sha256).toHex();
    for (int rank = 0; rank < 2; ++rank)
      QVERIFY2(linesOf(result, rank).count(digest) >= 2, result.text());
    QDirIterator files(cli_.home(), QDir::Files | QDir::Hidden, QDirIterator::Subdirectories);
    int count = 0;
    for (; files.hasNext(); ++count) {
      const QString path = files.next();
      QVERIFY2(!read(path).contains(value), qPrintable(path));
    }
    QVERIFY(count > 20);
  }

  // The Python of each node is told before anything starts: here a script that has another PyTorch
  // in the copy of the second node.
  void versionsAreCompared() {
    const QStringList arguments = program("print('ran')", 2, "  python: {kind: path, path: bin}\n");
    const QString code = QDir(folder_).dirName();
    for (const QString made :
         {"bin", "packages2.1/torch-2.1.dist-info", "packages2.2/torch-2.2.dist-info"})
      QDir(folder_).mkpath(made);
    const QString python =
        cli_.write(code + "/bin/python3",
                   "#!/bin/sh\ncase $PWD in */local2/*) v=2.2;; *) v=2.1;; esac\n"
                   "export PYTHONPATH=$PWD/packages$v\n"
                   "exec /usr/bin/python3 \"$@\"\n");
    QFile::setPermissions(python, QFile::ReadOwner | QFile::WriteOwner | QFile::ExeOwner);
    for (const char* version : {"2.1", "2.2"})
      cli_.write(QString("%1/packages%2/torch-%2.dist-info/METADATA").arg(code, version),
                 "Metadata-Version: 2.1\nName: torch\nVersion: " + QByteArray(version) + ".0\n");
    const CliResult refused = cli_.run(arguments);
    QVERIFY2(refused.exit != 0 && refused.text().contains("its torch is not that of local1") &&
                 refused.text().contains("2.2.0 here, 2.1.0 there"),
             refused.text());
    QVERIFY2(linesOf(refused).isEmpty(), refused.text());
    const CliResult mixed =
        cli_.run(arguments + QStringList{"--set", "workload.python.mixed=true"});
    QVERIFY2(mixed.exit == 0 && linesOf(mixed).count("ran") == 2, mixed.text());
  }

  // A virtual environment that comes later in the path, and has a "python".
  void pythonHasItsOwnLibraries() {
    const QString later = cli_.path("later/bin");
    QVERIFY(QDir().mkpath(later) && QDir().mkpath(cli_.path("first")));
    cli_.write("later/pyvenv.cfg", "home = /usr/bin\n");
    QVERIFY(QFile::link("/usr/bin/python3", later + "/python"));
    QVERIFY(QFile::link("/usr/bin/python3", cli_.path("first/python3")));
    const QByteArray path = (cli_.path("first") + ":" + later).toUtf8();
    const CliResult result =
        cli_.run(program("print(sys.prefix)\n", 1,
                         "  python: {kind: none}\n  env: {PATH: '" + path + ":/usr/bin:/bin'}\n"));
    QVERIFY2(result.exit == 0, result.text());
    QCOMPARE(linesOf(result), QList<QByteArray>{"/usr"});
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

  // What is reported by the module, also what is no finite number, and what has no step.
  void theModuleReportsValues_data() {
    QTest::addColumn<QByteArray>("more");
    QTest::newRow("hooks") << QByteArray();
    QTest::newRow("no hooks") << QByteArray("  metrics: {hooks: []}\n");
    QTest::newRow("single") << QByteArray("  launcher: single\n");
    QTest::newRow("torchrun") << QByteArray("  launcher: torchrun\n  metrics: {hooks: []}\n");
  }
  void theModuleReportsValues() {
    QFETCH(QByteArray, more);
    const CliResult result = cli_.run(program(R"(
import lockstep
for step in range(1, 6):
    lockstep.log({"loss": 1 / step if step != 3 else float("nan"), "text": "x"}, step=step)
    with lockstep.step():
        time.sleep(0.01)
        lockstep.log({"free": float("inf") if step == 2 else step})
time.sleep(0.3)
)",
                                              2, more));
    QVERIFY2(result.exit == 0, result.text());
    QMap<QString, QList<QJsonObject>> found;
    for (const QJsonObject& line : result.all("scalar")) found[line["tag"].toString()] << line;
    QCOMPARE(found.keys(), (QStringList{"free", "loss", "step_seconds"}));
    for (const QString& tag : found.keys()) QCOMPARE(found[tag].size(), qsizetype{5});
    for (int at = 0; at < 5; ++at) {
      QCOMPARE(found["loss"][at]["step"].toInt(), at + 1);
      QCOMPARE(found["loss"][at]["source"].toString(), QString("log"));
      if (at != 2) QCOMPARE(found["loss"][at]["value"].toDouble(), 1.0 / (at + 1));
    }
    QVERIFY(!found["loss"][2]["value"].isDouble());
    QVERIFY(found["step_seconds"][0]["value"].toDouble() >= 0.01);
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

  void mistakes_data() {
    QTest::addColumn<QByteArray>("more");
    QTest::addColumn<int>("exit");
    QTest::addColumn<QString>("node");
    QTest::addColumn<QStringList>("texts");
    const auto row = [](const char* name, const char* more, int exit, const char* node,
                        const QStringList& texts) {
      QTest::newRow(name) << QByteArray(more) << exit << QString(node) << texts;
    };
    row("no such program", "  command: [no-such-program, main.py]\n", 1, "local1",
        {"there is no program no-such-program on this node", "workload.python"});
    row("no such file", "  command: [./absent.sh]\n", 1, "local1", {"absent.sh"});
    row("not executable", "  command: [./main.py]\n", 1, "local1",
        {"cannot run", "make it executable", "[python3, ./main.py]"});
    row("no such interpreter", "  command: [./strange.sh]\n", 1, "local1",
        {"cannot run", "is not on this node", "[python3, ./strange.sh]"});
    row("no such folder of Python", "  python: {kind: venv, path: .venv}\n", 3, "local1",
        {"there is no Python in /", "/.venv on this node|workload.python.path|",
         "the folder does not exist", "make it there with workload.setup"});
    row("no interpreter", "  python: {kind: venv, path: /usr/share}\n", 3, "local1",
        {"there is no Python in /usr/share", "it has no /usr/share/bin/python",
         "create it on the node"});
    row("no such script", "  command: [python, absent.py]\n", 1, "local1",
        {"exited with code 2", "can't open file"});
    row("no such module", "  command: [python, -c, import no_such_module]\n", 1, "local1",
        {"exited with code 1", "No module named 'no_such_module'", "workload.python"});
    row("no such folder", "  code: {from: absent}\n", 2, "", {"workload.code.from", "/absent"});
    row("too large", "  code: {max_bytes: 100}\n", 3, "",
        {"is too large", "main.py", ".lockstepignore", "max_bytes"});
  }
  void mistakes() {
    QFETCH(QByteArray, more);
    QFETCH(int, exit);
    QFETCH(QString, node);
    QFETCH(QStringList, texts);
    const QStringList arguments = program("", 1, more);
    const QString script =
        cli_.write(QDir(folder_).dirName() + "/strange.sh", "#!/nowhere/python\n");
    QFile::setPermissions(script, QFile::ReadOwner | QFile::WriteOwner | QFile::ExeOwner);
    const CliResult result = cli_.run(arguments);
    QVERIFY2(result.exit == exit, result.text());
    const QJsonObject error = result.first("error");
    QCOMPARE(error["node"].toString(), node);
    const QString all = error["what"].toString() + "|" + error["field"].toString() + "|" +
                        error["why"].toString() + "|" + error["next"].toString();
    for (const QString& text : texts) QVERIFY2(all.contains(text), qPrintable(all));
    QVERIFY(result.all("recovering").isEmpty());
  }

  void launchers_data() {
    QTest::addColumn<QString>("launcher");
    QTest::addColumn<int>("ranks");
    QTest::newRow("torchrun") << "torchrun" << 2;
    QTest::newRow("single") << "single" << 1;
  }
  void launchers() {
    QFETCH(QString, launcher);
    QFETCH(int, ranks);
    const CliResult result = cli_.run(program(
        R"(print(json.dumps({k: v for k, v in os.environ.items() if "RANK" in k or "PET" in k})))",
        2, "  launcher: " + launcher.toUtf8() + "\n  env: {MY_RANK: mine}\n"));
    QVERIFY2(result.exit == 0, result.text());
    QCOMPARE(result.first("started")["world"].toInt(), ranks);
    QCOMPARE(linesOf(result).size(), ranks);
    for (int rank = 0; rank < ranks; ++rank) {
      const QJsonObject told = QJsonDocument::fromJson(linesOf(result, rank).value(0)).object();
      QCOMPARE(told["MY_RANK"].toString(), QString("mine"));
      QVERIFY2(!told.contains("RANK") && !told.contains("LOCAL_RANK"), result.text());
      QCOMPARE(told.contains("PET_NNODES"), ranks == 2);
      if (ranks == 2) QCOMPARE(told["PET_NODE_RANK"].toString(), QString::number(rank));
    }
  }

  void codeMayBeOnTheNodesAlready() {
    program("", 1);
    const QString script = cli_.write("there.py", "import os\nprint('in', os.listdir())\n");
    const CliResult result = cli_.run(
        program("", 2, "  command: [python, " + script.toUtf8() + "]\n  code: {disabled: true}\n"));
    QVERIFY2(result.exit == 0, result.text());
    for (const int rank : {0, 1})
      QVERIFY2(linesOf(result, rank).value(0).startsWith("in ["), result.text());
    QVERIFY(!linesOf(result, 0).value(0).contains("main.py"));
    QVERIFY(!QDir(copied(result.first("started")["run"].toString(), 1)).exists());
  }

  void commandsThatNeedAModelRefuse_data() {
    QTest::addColumn<QStringList>("command");
    QTest::newRow("plan") << QStringList{"plan", "FILE", "--local", "2"};
    QTest::newRow("simulate") << QStringList{"simulate", "FILE", "--local", "2"};
    QTest::newRow("advise") << QStringList{"advise", "FILE", "--local", "2"};
    QTest::newRow("whatif") << QStringList{"whatif", "FILE", "--local", "2"};
    QTest::newRow("verify") << QStringList{"verify", "FILE", "--ranks", "2"};
    QTest::newRow("bench") << QStringList{"bench", "train", "--model", "FILE"};
    QTest::newRow("data show") << QStringList{"data", "show", "FILE"};
  }
  void commandsThatNeedAModelRefuse() {
    QFETCH(QStringList, command);
    program("", 1);
    command.replaceInStrings("FILE", folder_ + "/run.yaml");
    const CliResult result = cli_.run(command);
    QVERIFY2(result.exit == 2, result.text());
    QVERIFY2(result.err.contains("runs a program of its own"), result.text());
  }

  void theHistoryHasThem() {
    const CliResult result = cli_.run(program(counting(12), 2, "  name: my fit\n"));
    QVERIFY2(result.exit == 0, result.text());
    const QString run = result.first("started")["run"].toString();
    const CliResult list = cli_.run({"history", "list"});
    QVERIFY2(list.out.contains(run.toUtf8()) && list.out.contains("my fit"), list.text());
    const CliResult shown = cli_.run({"history", "show", run});
    QVERIFY2(shown.exit == 0 && shown.out.contains("my fit") && shown.out.contains("own program") &&
                 shown.out.contains("# code: 2 files, "),
             shown.text());
    for (const char* file : {"r.html", "r.csv", "r.json", "r.svg"}) {
      const CliResult exported = cli_.run({"history", "export", run, "--out", cli_.path(file)});
      QVERIFY2(exported.exit == 0, exported.text());
      QVERIFY2(read(cli_.path(file)).size() > 100, file);
    }
    QVERIFY(read(cli_.path("r.csv")).contains("loss"));
    const CliResult resumed = cli_.run({"resume", run});
    QVERIFY2(resumed.exit == 3 && resumed.err.contains("its program writes its own checkpoints"),
             resumed.text());
    for (const QStringList& words : {QStringList{"predict", run, "--data", folder_ + "/main.py"},
                                     QStringList{"generate", run, "--prompt", "a"},
                                     QStringList{"export", run, "--to", cli_.path("x.onnx")}}) {
      const CliResult refused = cli_.run(words);
      QVERIFY2(refused.exit != 0 && refused.err.contains("its program saves its model itself") &&
                   refused.err.contains("lockstep artifacts " + run.toUtf8()),
               refused.text());
    }
    // Its code is what the folder has now.
    cli_.write(QDir(folder_).dirName() + "/main.py", kProgramPrelude + counting(15));
    const CliResult again = cli_.run({"rerun", run, "--json"});
    QVERIFY2(again.exit == 0, again.text());
    QCOMPARE(again.last()["steps"].toInt(), 15);
    const CliResult attached = cli_.run({"attach", run, "--json", "--every", "1"});
    QCOMPARE(attached.all("step").size(), qsizetype{12});
  }

  void theHistoryHasWhatIsNotCommitted() {
    const QStringList arguments = program("print('committed')\n", 1);
    const auto git = [&](const QStringList& words) {
      QProcess process;
      process.setWorkingDirectory(folder_);
      process.start("git", QStringList{"-c", "user.name=n", "-c", "user.email=e"} + words);
      return process.waitForFinished(30000) && process.exitCode() == 0;
    };
    QVERIFY(git({"init", "--quiet"}) && git({"add", "--all"}) && git({"commit", "-qm", "m"}));
    cli_.write(QDir(folder_).dirName() + "/main.py", kProgramPrelude + "print('<changed>')\n");
    const CliResult result = cli_.run(arguments);
    QVERIFY2(result.exit == 0, result.text());
    const QString run = result.first("started")["run"].toString();
    const QByteArray lines = "-print('committed')\n+print('<changed>')\n";
    const CliResult shown = cli_.run({"history", "show", run});
    QVERIFY2(shown.out.contains(lines) && shown.out.contains("changed since commit "),
             shown.text());
    const CliResult json = cli_.run({"history", "show", run, "--json"});
    QVERIFY2(json.first("run")["code_patch"].toString().contains(lines), json.text());
    QVERIFY(cli_.run({"history", "export", run, "--out", cli_.path("patch.html")}).exit == 0);
    QVERIFY(read(cli_.path("patch.html")).contains("+print(&#39;&lt;changed&gt;&#39;)"));
  }

  // The first text of README's chapter, beside a train.py.
  void theReadmesSpecRuns() {
    const QByteArray all = read(QString::fromStdString(sourcePath("README.md")));
    const qsizetype chapter = all.indexOf("\n## Your own program\n");
    const QByteArray start = "cat >run.yaml <<'END'\n";
    const qsizetype begin = all.indexOf(start, chapter) + start.size();
    QVERIFY(chapter > 0 && begin > chapter + start.size());
    const QByteArray spec = all.mid(begin, all.indexOf("END\n", begin) - begin);
    QCOMPARE(spec.count('\n'), 2);
    QVERIFY(QDir().mkpath(cli_.path("readme")));
    cli_.write("readme/run.yaml", spec);
    cli_.write("readme/train.py",
               "import os, sys\nprint(*sys.argv, os.environ['RANK'], 'of', "
               "os.environ['WORLD_SIZE'])\nprint('step 1 loss 0.5')\n");
    const CliResult result =
        cli_.run({"run", cli_.path("readme/run.yaml"), "--json", "--local", "3"});
    QVERIFY2(result.exit == 0, result.text());
    for (int rank = 0; rank < 3; ++rank)
      QCOMPARE(linesOf(result, rank).value(0),
               QString("train.py --lr 3e-4 %1 of 3").arg(rank).toUtf8());
    QCOMPARE(result.last()["train_loss"].toDouble(), 0.5);
  }
  void theExampleTrains() {
    if (!hasPyTorch()) QSKIP("/usr/bin/python3 has no PyTorch with Gloo");
    const CliResult result =
        cli_.run({"run", QString::fromStdString(sourcePath("resources/examples/ddp.yaml")),
                  "--json", "--local", "3", "--set", "workload.python.kind=path", "--set",
                  "workload.python.path=/usr/bin"});
    QVERIFY2(result.exit == 0, result.text());
    QCOMPARE(result.last()["steps"].toInt(), 300);
    QVERIFY2(result.last()["train_loss"].toDouble() < 0.6, result.text());
  }

  void argumentsArriveAsTheyAre() {
    const QList<QString> odd = {"",     " ",      "a b", "it's", "\"q\"", "two\nlines", "$HOME `x`",
                                "训练", "\\n \\", "{a}", "#",    "- x",   "true",       "1e5"};
    QByteArray command = "  command: [python, main.py";
    for (const QString& word : odd) {
      QJsonArray quoted{word};  // as YAML quotes it too
      const QByteArray json = QJsonDocument(quoted).toJson(QJsonDocument::Compact);
      command += ", " + json.mid(1, json.size() - 2);
    }
    const CliResult result =
        cli_.run(program("print(json.dumps(sys.argv[1:]))", 1, command + "]\n"));
    QVERIFY2(result.exit == 0, result.text());
    QStringList told;
    for (const auto& word : QJsonDocument::fromJson(linesOf(result).value(0)).array())
      told << word.toString();
    QCOMPARE(told, odd);
  }

  // What agent, supervisor and worker may have open is raised, for them alone.
  void programsKeepTheirLimitOfOpenFiles() {
    rlimit before{};
    QCOMPARE(getrlimit(RLIMIT_NOFILE, &before), 0);
    const auto restore = qScopeGuard([&] { setrlimit(RLIMIT_NOFILE, &before); });
    const rlimit low{1000, before.rlim_max};
    QCOMPARE(setrlimit(RLIMIT_NOFILE, &low), 0);
    Cli cli;
    const CliResult result = cli.run(programCommand(cli, cli.path("code"), R"(
pid, limits = os.getpid(), []
for _ in range(4):
    for line in open(f"/proc/{pid}/limits"):
        if line.startswith("Max open files"): limits.append(line.split()[3])
    pid = int(open(f"/proc/{pid}/stat").read().rsplit(') ', 1)[1].split()[1])
print(*limits)
)",
                                                    1));
    QVERIFY2(result.exit == 0, result.text());
    const QByteArray raised =
        QByteArray::number(static_cast<qulonglong>(std::min<rlim_t>(before.rlim_max, 65536)));
    QCOMPARE(linesOf(result).value(0), "1000 " + raised + " " + raised + " " + raised);
  }

  void anyOutput_data() {
    QTest::addColumn<QByteArray>("script");
    QTest::addColumn<QByteArray>("line");  // among those told
    QTest::newRow("a flood") << QByteArray(R"(
line, end = (b"x" * 99 + b"\n") * 10000, time.time() + 2
while time.time() < end: os.write(1, line)
print("step 5 loss 0.5")
)") << QByteArray();
    QTest::newRow("binary") << QByteArray(R"(
os.write(1, b"step 1 loss \xff\xfe\x00\x80 0.25\n" + bytes(range(256)) * 1000 + b"\n")
print("step 5 loss 0.5")
)") << QByteArray();
    QTest::newRow("no newline") << QByteArray("os.write(1, b'step 5 loss 0.5')")
                                << QByteArray("step 5 loss 0.5");
    QTest::newRow("a line without end") << QByteArray(R"(
os.write(1, b"step 4 loss 0.25 " + b"y" * 3000000)
print("\nstep 5 loss 0.5")
)") << QByteArray("step 5 loss 0.5");
    QTest::newRow("progress bar") << QByteArray(R"(
for step in range(1, 6):
    print(f"\r{step * 20}%|##| step {step} loss {step / 10}", end="")
    time.sleep(0.05)
)") << QByteArray("100%|##| step 5 loss 0.5");
    QTest::newRow("a bar without steps, right at its end") << QByteArray(R"(
for at in range(1, 6):
    print(f"\r{at}/5 [=>...] - ETA: 0s - loss: {3 * at}" + 40 * "\b", end="")
print("\r5/5 [=====] - 0s 2ms/step - loss: 0.5")
)") << QByteArray("5/5 [=====] - 0s 2ms/step - loss: 0.5");
  }
  void anyOutput() {
    QFETCH(QByteArray, script);
    QFETCH(QByteArray, line);
    const CliResult result = cli_.run(program(script, 2));
    QVERIFY2(result.exit == 0 && result.onlyJson, result.text());
    QCOMPARE(result.last()["steps"].toInt(), 5);
    QCOMPARE(result.last()["train_loss"].toDouble(), 0.5);
    QVERIFY(result.all("recovering").isEmpty());
    if (!line.isEmpty()) QVERIFY2(linesOf(result, 1).contains(line), result.text());
  }

  // Of 256,000 values at once, most are left out.
  void valuesHaveARate() {
    QElapsedTimer timer;
    timer.start();
    const CliResult result = cli_.run(program("for _ in range(1000): print('v=1 ' * 256)", 1,
                                              "  metrics:\n    stdout: ['v=(?P<v>\\S+)']\n"));
    const double seconds = static_cast<double>(timer.elapsed()) / 1000;
    QVERIFY2(result.exit == 0, result.err.constData());
    const auto told = static_cast<double>(result.all("scalar").size());
    QVERIFY2(told <= 50'000 + 2000 * seconds, result.err.constData());
    const QList<QJsonObject> warnings = result.all("warning");
    QVERIFY(std::any_of(warnings.begin(), warnings.end(), [](const QJsonObject& warning) {
      return warning["what"].toString() == "the program reports too many values";
    }));
  }

  void manyRanksOfANode() {
    const CliResult result =
        cli_.run(program(R"(print(rank, world, os.environ["LOCAL_RANK"], os.environ["TF_CONFIG"]))",
                         1, "  ranks_per_node: 64\n"));
    QVERIFY2(result.exit == 0, result.text());
    for (int rank = 0; rank < 64; ++rank) {
      const QByteArray number = QByteArray::number(rank);
      const QByteArray line = linesOf(result, rank).value(0);
      QVERIFY2(line.startsWith(number + " 64 " + number + " {"), line);
      const QJsonObject config =
          QJsonDocument::fromJson(line.mid(line.indexOf('{'))).object()["cluster"].toObject();
      QSet<QString> workers;
      for (const auto& worker : config["worker"].toArray()) workers << worker.toString();
      QCOMPARE(workers.size(), qsizetype{64});
    }
  }

  // With the same digits as the same program that a person starts by hand.
  void pyTorchTrainsAsByHand() {
    if (!hasPyTorch()) QSKIP("/usr/bin/python3 has no PyTorch with Gloo");
    const QStringList arguments = program(R"(
import torch, torch.distributed as dist
torch.manual_seed(1); torch.set_num_threads(1)
dist.init_process_group("gloo")
net = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
model = torch.nn.parallel.DistributedDataParallel(net)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
random = torch.Generator().manual_seed(rank)
x, y = torch.randn(64, 16, generator=random), torch.randint(0, 4, (64,), generator=random)
for step in range(1, 21):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x), y)
    loss.backward(); optimizer.step()
    total = loss.detach().clone(); dist.all_reduce(total)
    if rank == 0: print(f"step {step} loss {total.item() / world:.17g}", flush=True)
)",
                                          3);
    const CliResult result = cli_.run(arguments);
    QVERIFY2(result.exit == 0, result.text());
    const QString port = QString::number(freePort());
    std::vector<std::unique_ptr<QProcess>> byHand;
    for (int rank = 0; rank < 3; ++rank) {
      QProcessEnvironment environment = QProcessEnvironment::systemEnvironment();
      for (const auto& [name, value] : QMap<QString, QString>{
               {"RANK", QString::number(rank)},
               {"WORLD_SIZE", "3"},
               {"MASTER_ADDR", "127.0.0.1"},
               {"MASTER_PORT", port},
               {"GLOO_SOCKET_IFNAME",
                "lo"}}.asKeyValueRange())
        environment.insert(name, value);
      byHand.push_back(std::make_unique<QProcess>());
      byHand.back()->setProcessEnvironment(environment);
      byHand.back()->start("/usr/bin/python3", {folder_ + "/main.py"});
    }
    for (const auto& process : byHand) QVERIFY(process->waitForFinished(120000));
    const QList<QByteArray> lines = byHand[0]->readAllStandardOutput().trimmed().split('\n');
    QCOMPARE(lines.size(), qsizetype{20});
    QCOMPARE(linesOf(result, 0), lines);
    QCOMPARE(result.all("scalar").size(), qsizetype{20});
  }
};

QTEST_GUILESS_MAIN(CliProgramTest)
#include "cli_program_test.moc"
