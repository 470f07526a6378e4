// `lockstep debug` on real runs of this machine.
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <QJsonArray>
#include <QJsonDocument>
#include <QStandardPaths>
#include <QTest>

#include "tests/app/cli/cli_runner.h"

using namespace lockstep::test;

namespace {

// A run of two ranks on two agents, until it is asked to end.
struct Training {
  Cli cli;
  std::unique_ptr<QProcess> process;
  QByteArray out;
  QString run;

  bool begin() {
    process = cli.start({"run", example("fashion-mlp"), "--json", "--every", "20", "--local", "2",
                         "--set", "training.epochs=100000"});
    if (!cli.awaitEvent(*process, "step", out)) return false;
    const qsizetype at = out.indexOf("\"run\":\"") + 7;
    run = QString::fromUtf8(out.mid(at, out.indexOf('"', at) - at));
    return !run.isEmpty();
  }
  bool goesOn() { return cli.awaitNext(*process, "step", out); }
  void end() {
    cli.run({"kill", run});
    cli.finish(*process, out);
  }
  qint64 worker(int rank) const {
    for (const qint64 pid : cli.workers(run)) {
      QFile file(QString("/proc/%1/environ").arg(pid));
      if (file.open(QIODevice::ReadOnly) &&
          file.readAll().split('\0').contains("LOCKSTEP_RANK=" + QByteArray::number(rank)))
        return pid;
    }
    return -1;
  }
};

// Connects to a unix socket, as a debugger does. Negative: it cannot.
int connectTo(const QString& path) {
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  path.toStdString().copy(to.sun_path, sizeof to.sun_path - 1);
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (::connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0) return fd;
  ::close(fd);
  return -1;
}

// Terminal control sequences, other than those that colour.
bool hasControls(const QByteArray& text) {
  for (const char c : text)
    if ((static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') || c == 0x7f) return true;
  return false;
}

}  // namespace

class CliDebugTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void initTestCase() {
    if (!QFile::exists("/usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz"))
      QSKIP("dataset-fashion-mnist is not installed");
  }

  void aRunIsDebugged() {
    Training training;
    QVERIFY2(training.begin(), training.out.right(2000));
    if (!QTest::currentTestFailed()) stacksAreRead(training);
    if (!QTest::currentTestFailed()) frozenRanksAreRead(training);
    if (!QTest::currentTestFailed()) processesAreListed(training);
    if (!QTest::currentTestFailed()) kernelMessagesAreRead(training);
    if (!QTest::currentTestFailed()) aNodeIsMeasured(training);
    if (!QTest::currentTestFailed()) aDebuggerAttaches(training);
    if (!QTest::currentTestFailed()) aShellIsOffered(training);
    training.end();
    for (const char* what : {"stacks", "gdb"}) {
      const CliResult ended = training.cli.run({"debug", what, training.run, "0", "--json"});
      QVERIFY2(ended.exit == 3 && ended.onlyJson, ended.text());
      QCOMPARE(ended.first("error")["code"].toString(), "failed-precondition");
      QVERIFY2(ended.first("error")["what"].toString().endsWith("has ended"), ended.text());
    }
    QVERIFY(training.cli.leave());
  }

  void shellsOfNodesOverSsh() {
    const Cli cli;
    const QString cluster =
        cli.write("lab.yaml",
                  "version: 1\nname: lab\nnodes:\n"
                  "  - name: n1\n    ssh: {host: n1.lab}\n"
                  "  - name: n2\n    ssh: {host: n2.lab, user: ann, port: 2222, "
                  "identity_file: '/k e\\y', proxy_jump: 'bob@gate.lab:22'}\n"
                  "  - name: n3\n    ssh: {host: -oProxyCommand=touch}\n");
    const CliResult plain = cli.run({"debug", "terminal", cluster, "n1", "--print"});
    QCOMPARE(plain.out, QByteArray("ssh -- n1.lab\n"));
    const CliResult all =
        cli.run({"--ssh-config", "/tmp/some config", "debug", "terminal", cluster, "n2", "--json"});
    QVERIFY2(all.exit == 0 && all.onlyJson, all.text());
    QJsonArray words;
    for (const char* word : {"ssh", "-F", "/tmp/some config", "-p", "2222", "-l", "ann", "-i",
                             "/k e\\y", "-oProxyJump=bob@gate.lab:22", "--", "n2.lab"})
      words.append(word);
    QCOMPARE(all.last()["words"].toArray(), words);
    QCOMPARE(all.last()["command"].toString(),
             "ssh -F '/tmp/some config' -p 2222 -l ann -i '/k e\\y' -oProxyJump=bob@gate.lab:22 -- "
             "n2.lab");
    // No option of ssh is made of a host's name.
    const CliResult option = cli.run({"debug", "terminal", cluster, "n3"});
    QVERIFY2(option.exit != 0 && option.out.isEmpty(), option.text());
    const CliResult none = cli.run({"debug", "terminal", cluster, "n4"});
    QVERIFY2(none.exit == 2 && none.err.contains("n1, n2, n3"), none.text());
    for (const QStringList& nodeless :
         {QStringList{cluster}, QStringList{"--local", "3", "--print"}}) {
      const CliResult unnamed = cli.run(QStringList{"debug", "terminal"} + nodeless);
      QVERIFY2(unnamed.exit == 2 && unnamed.err.contains("NODE is missing"), unnamed.text());
    }
  }

  void whatIsWrongIsSaid() {
    const Cli cli;
    const CliResult unknown = cli.run({"debug", "stacks", "nosuchrun", "0", "--json"});
    QVERIFY2(unknown.exit == 2 && unknown.onlyJson, unknown.text());
    QCOMPARE(cli.run({"debug", "stacks", "nosuchrun", "first"}).exit, 2);
    QCOMPARE(cli.run({"debug", "processes"}).exit, 2);
    QCOMPARE(cli.run({"debug", "processes", "nosuch.yaml"}).exit, 2);
    QCOMPARE(cli.run({"debug", "processes", "--local", "1", "--seconds", "11"}).exit, 2);
    QCOMPARE(cli.run({"debug", "kernel", "--local", "1", "--lines", "0"}).exit, 2);
    QCOMPARE(cli.run({"debug", "gdb", "nosuchrun", "0", "--wait", "0"}).exit, 2);
    QCOMPARE(cli.run({"debug", "bench", "--local", "2"}).exit, 2);
    QCOMPARE(cli.run({"debug", "bench", "--local", "1", "local1", "local1"}).exit, 2);
    QCOMPARE(cli.run({"debug", "bench", "--local", "1", "local1", "--seconds", "11"}).exit, 2);
    QVERIFY(cli.run({"debug"}).err.contains("stacks, processes, kernel, bench, gdb, terminal"));
    const CliResult node = cli.run({"debug", "processes", "--local", "1", "nosuch"});
    QVERIFY2(node.exit == 2 && node.err.contains("local1"), node.text());
    // A node that cannot be reached.
    const QString cluster = cli.write(
        "away.yaml",
        "version: 1\nname: away\nnodes:\n  - name: n1\n    ssh: {host: 127.0.0.1, port: 1}\n");
    const CliResult away = cli.run({"debug", "processes", cluster, "--json"});
    QVERIFY2(away.exit == 3 && away.onlyJson, away.text());
    QCOMPARE(away.first("error")["node"].toString(), "n1");
    const CliResult unmeasured = cli.run({"debug", "bench", cluster, "n1", "--json"});
    QVERIFY2(unmeasured.exit == 3 && unmeasured.onlyJson, unmeasured.text());
    QCOMPARE(unmeasured.first("error")["what"].toString(), away.first("error")["what"].toString());
  }

 private:
  static void stacksAreRead(Training& training) {
    const CliResult json = training.cli.run({"debug", "stacks", training.run, "1", "--json"});
    QVERIFY2(json.exit == 0 && json.onlyJson, json.text());
    const auto threads = json.all("thread");
    QVERIFY2(threads.size() > 1, json.text());
    bool ours = false;
    for (const QJsonObject& thread : threads) {
      QCOMPARE(thread["rank"].toInt(), 1);
      QCOMPARE(thread["node"].toString(), "local2");
      QCOMPARE(thread["pid"].toInteger(), training.worker(1));
      QVERIFY(thread["stopped_ms"].toDouble() > 0);
      for (const auto& frame : thread["frames"].toArray())
        ours = ours || frame.toString().contains("lockstep::");
    }
    QVERIFY2(ours, json.text());
    const CliResult text = training.cli.run({"debug", "stacks", training.run, "0"});
    QVERIFY2(text.exit == 0, text.text());
    QVERIFY2(text.out.startsWith("rank 0 on local1, process "), text.text());
    QVERIFY2(text.out.contains("\nthread ") && text.out.contains("lockstep::"), text.text());
    const CliResult beyond = training.cli.run({"debug", "stacks", training.run, "2"});
    QVERIFY2(beyond.exit == 2 && beyond.err.contains("has no rank 2, but ranks 0 to 1"),
             beyond.text());
    QVERIFY(training.goesOn());
  }

  static void frozenRanksAreRead(Training& training) {
    const qint64 pid = training.worker(0);
    ::kill(static_cast<pid_t>(pid), SIGSTOP);
    const CliResult frozen = training.cli.run({"debug", "stacks", training.run, "0", "--json"});
    ::kill(static_cast<pid_t>(pid), SIGCONT);
    QVERIFY2(frozen.exit == 0, frozen.text());
    QVERIFY2(frozen.first("thread")["state"].toString().startsWith("T"), frozen.text());
    QVERIFY(training.goesOn());
  }

  static void processesAreListed(Training& training) {
    // A busy process whose name would take the terminal over.
    QProcess busy;
    busy.setProgram("/bin/bash");
    busy.setArguments(
        {"-c", "exec -a $'evil\\e]0;owned\\a\\e[2J\\nx' bash -c 'while :; do :; done'"});
    busy.start();
    QVERIFY(busy.waitForStarted());
    const CliResult json =
        training.cli.run({"debug", "processes", training.run, "--json", "--seconds", "3"});
    const CliResult text = training.cli.run({"debug", "processes", training.run, "local2"});
    busy.kill();
    busy.waitForFinished();
    QVERIFY2(json.exit == 0 && json.onlyJson, json.text());
    QMap<int, qint64> ranks;
    QSet<QString> nodes;
    bool evil = false;
    for (const QJsonObject& process : json.all("process")) {
      nodes << process["node"].toString();
      if (process["run"].toString() == training.run && process["rank"].toInt() >= 0)
        ranks[process["rank"].toInt()] = process["pid"].toInteger();
      if (process["command"].toString().startsWith("evil\x1b")) {
        evil = true;
        QVERIFY2(process["cores"].toDouble() > 0.02, json.text());
      }
    }
    QVERIFY2(evil, json.text());
    QCOMPARE(nodes, (QSet<QString>{"local1", "local2"}));
    QCOMPARE(ranks, (QMap<int, qint64>{{0, training.worker(0)}, {1, training.worker(1)}}));
    QVERIFY2(text.exit == 0, text.text());
    QVERIFY2(text.out.contains("rank 1 of " + training.run.toUtf8()), text.text());
    QVERIFY2(text.out.contains("evil\\x1b"), text.text());
    QVERIFY2(!hasControls(text.out) && !text.out.contains("\nx "), text.text());
    const CliResult other = training.cli.run({"debug", "processes", training.run, "n7"});
    QVERIFY2(other.exit == 2 && other.err.contains("local1, local2"), other.text());
  }

  static void kernelMessagesAreRead(Training& training) {
    const CliResult json =
        training.cli.run({"debug", "kernel", training.run, "local1", "--lines", "7", "--json"});
    QVERIFY2(json.onlyJson, json.text());
    if (json.exit != 0) {  // the account may not
      QCOMPARE(json.first("error")["code"].toString(), "permission-denied");
      QVERIFY2(json.first("error")["next"].toString().contains("sysctl"), json.text());
      return;
    }
    QVERIFY2(json.all("kernel").size() <= 7, json.text());
    for (const QJsonObject& line : json.all("kernel"))
      QVERIFY2(!line["level"].toString().isEmpty() && line["node"].toString() == "local1",
               json.text());
    const CliResult text = training.cli.run({"debug", "kernel", training.run});
    QVERIFY2(text.exit == 0 && !hasControls(text.out), text.text());
  }

  static void aNodeIsMeasured(Training& training) {
    const CliResult json =
        training.cli.run({"debug", "bench", training.run, "local2", "--seconds", "0.1", "--json"});
    QVERIFY2((json.exit == 0 || json.exit == 1) && json.onlyJson, json.text());
    const auto values = json.all("bench");
    QCOMPARE(values.size(), 6);
    const QStringList kinds{"matmul", "memory", "disk-write"};
    bool weak = false;
    for (int i = 0; i < 6; ++i) {
      const QJsonObject& value = values[i];
      QCOMPARE(value["node"].toString(), i < 3 ? "local2" : "local1");
      QCOMPARE(value["kind"].toString(), kinds[i % 3]);
      QCOMPARE(value["compared_with"].toString(), "others");
      QCOMPARE(value["usual"].toDouble(), values[(i + 3) % 6]["value"].toDouble());
      QVERIFY2(value["value"].toDouble() > 1e6, json.text());
      weak = weak || (i < 3 && value["grade"].toString() == "weak");
    }
    QCOMPARE(json.exit, weak ? 1 : 0);
    QVERIFY2(json.err.contains("training on these nodes is slowed"), json.text());
    QVERIFY(training.goesOn());
    const CliResult unknown = training.cli.run({"debug", "bench", training.run, "n7"});
    QVERIFY2(unknown.exit == 2 && unknown.err.contains("local1, local2"), unknown.text());
    // Ctrl-C while it measures.
    const auto measures =
        training.cli.start({"debug", "bench", training.run, "local1", "--seconds", "10"});
    QVERIFY(training.cli.awaitError(*measures, "is slowed"));
    ::kill(static_cast<pid_t>(measures->processId()), SIGINT);
    const CliResult interrupted = training.cli.finish(*measures, {}, 20000);
    QVERIFY2(interrupted.exit == 130 && interrupted.out.isEmpty(), interrupted.text());
    QVERIFY(training.goesOn());
  }

  static void aDebuggerAttaches(Training& training) {
    const auto gdb = training.cli.start({"debug", "gdb", training.run, "1", "--json"});
    QByteArray said;
    if (QStandardPaths::findExecutable("gdbserver").isEmpty()) {
      const CliResult missing = training.cli.finish(*gdb, said);
      QVERIFY2(missing.exit == 3, missing.text());
      QVERIFY2(missing.first("error")["next"].toString().contains("apt install gdbserver"),
               missing.text());
      return;
    }
    QVERIFY2(training.cli.awaitEvent(*gdb, "debugger", said), said);
    const QJsonObject waiting = QJsonDocument::fromJson(said.trimmed()).object();
    QCOMPARE(waiting["state"].toString(), "waiting");
    QCOMPARE(waiting["pid"].toInteger(), training.worker(1));
    QVERIFY(waiting["patience_seconds"].toDouble() >= 30);
    const QString socket = waiting["socket"].toString();
    QCOMPARE(waiting["command"].toString(), "gdb -ex 'target remote " + socket + "'");
    QVERIFY(training.goesOn());
    const int debugger = connectTo(socket);
    QVERIFY(debugger >= 0);
    QCOMPARE(::send(debugger, "$?#3f", 5, MSG_NOSIGNAL), ssize_t{5});
    pollfd answer{debugger, POLLIN, 0};
    QCOMPARE(::poll(&answer, 1, 60000), 1);
    QByteArray attached;
    QVERIFY(training.cli.awaitEvent(*gdb, "debugger", attached));
    QVERIFY2(attached.contains("\"attached\""), attached);
    said += attached;
    ::close(debugger);
    const CliResult left = training.cli.finish(*gdb, said);
    QVERIFY2(left.exit == 0 && left.onlyJson, left.text());
    QCOMPARE(left.last()["state"].toString(), "left");
    QVERIFY(training.goesOn());
    QTRY_VERIFY_WITH_TIMEOUT(!QFile::exists(socket), 60000);
    // Ctrl-C while it waits.
    const auto waits = training.cli.start({"debug", "gdb", training.run, "0"});
    QVERIFY(training.cli.awaitError(*waits, "Ctrl-C detaches"));
    ::kill(static_cast<pid_t>(waits->processId()), SIGINT);
    const CliResult interrupted = training.cli.finish(*waits, {});
    QVERIFY2(interrupted.exit == 130, interrupted.text());
    QVERIFY(training.goesOn());
  }

  static void aShellIsOffered(Training& training) {
    qputenv("SHELL", "/bin/sh");
    const CliResult shell = training.cli.run({"debug", "terminal", training.run, "local2"});
    QCOMPARE(shell.out, QByteArray("/bin/sh\n"));
  }
};

QTEST_GUILESS_MAIN(CliDebugTest)
#include "cli_debug_test.moc"
