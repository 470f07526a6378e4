// Hosts behind a ProxyCommand, with real sshd and real commands: what it carries, how it fails, and
// that nothing of it is left behind.
#include <QElapsedTimer>
#include <QTest>

#include <dirent.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <random>
#include <thread>

#include "app/ssh/ssh_connection.h"
#include "tests/support/ssh_world.h"

using namespace lockstep;
using namespace lockstep::app;
using World = lockstep::test::SshWorld;
using std::chrono::milliseconds;

namespace {

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// The processes whose command line has the text.
std::vector<pid_t> processesWith(const std::string& text) {
  std::vector<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    if (has(test::readText("/proc/" + name + "/cmdline"), text)) found.push_back(std::stoi(name));
  }
  return found;
}

// Children of this process, those that are not reaped included.
std::vector<pid_t> childProcesses() {
  std::vector<pid_t> found;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::istringstream pids(test::readText(task.path() / "children"));
    for (pid_t pid; pids >> pid;) found.push_back(pid);
  }
  std::sort(found.begin(), found.end());
  return found;
}

// What each open descriptor of this process is.
std::map<std::string, std::string> openDescriptors() {
  std::map<std::string, std::string> found;
  std::error_code gone;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    found[entry.path().filename()] = std::filesystem::read_symlink(entry.path(), gone);
  return found;
}

// A command that is an SSH server itself, as `sshd -i`. `marker` is in its command line.
std::string serverCommand(const World& world, const std::string& before = "") {
  const std::string file = world.folder / "behind";
  test::writeText(file,
                  "#!/bin/sh\n" + before + "exec /usr/sbin/sshd -i -f " +
                      (world.folder / "sshd0/sshd_config") + " # \"$@\"\n",
                  0755);
  return file;
}

}  // namespace

class ProxyCommandTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  void init() {
    childrenBefore_ = childProcesses();
    descriptorsBefore_ = openDescriptors();
  }
  // All of the test's objects are gone by now.
  void cleanup() {
    QVERIFY(test::waitFor([&] { return childProcesses() == childrenBefore_; }));
    const auto leaked = [&] {
      std::string list;
      for (const auto& [fd, what] : openDescriptors())
        if (!descriptorsBefore_.contains(fd)) list += fd + " " + what + ", ";
      return list;
    };
    QVERIFY2(test::waitFor([&] { return leaked().empty(); }), leaked().c_str());
  }

  void carriesASession_data() {
    QTest::addColumn<QByteArray>("kind");
    QTest::newRow("a program that is the server") << QByteArray("server");
    QTest::newRow("none: TCP") << QByteArray("none");
    QTest::newRow("ssh -W through a gate") << QByteArray("gate");
    QTest::newRow("the shell's own words") << QByteArray("shell");
  }
  void carriesASession() {
    QFETCH(QByteArray, kind);
    World world;
    if (!world.serve() || !world.serve()) QSKIP(world.why.c_str());
    world.trustAll();
    std::string command;
    if (kind == "server") command = serverCommand(world) + " %h";
    if (kind == "none") command = "none";
    if (kind == "gate") command = "ssh -F " + (world.folder / "config") + " -W %h:%p n2";
    if (kind == "shell")
      command = "sh -c 'echo \"%h|%n|%p|%r|100%%\" > \"$0\"; exec " + serverCommand(world) + "' " +
                (world.folder / "tokens");
    world.extraClientConfig = "Match originalhost n1\n  ProxyCommand " + command + "\nMatch all\n";
    {
      SshConnection connection({.host = "n1"}, world.options());
      VERIFY_OK(connection.connect());
      auto result = connection.exec("head -c 3000000 /dev/zero; echo err >&2; exit 7");
      VERIFY_OK(result);
      QCOMPARE(result->exitStatus, 7);
      QCOMPARE(result->output.size(), std::size_t{3000000});
      // Two servers, and the command.
      QCOMPARE(childProcesses().size(), childrenBefore_.size() + (kind == "none" ? 2 : 3));
      const auto forwarded = connection.forward(world.folder / "none", "");
      VERIFY_OK(forwarded);
    }
    QCOMPARE(childProcesses().size(), childrenBefore_.size() + 2);
    if (kind == "shell")
      QCOMPARE(test::readText(world.folder / "tokens"),
               "127.0.0.1|n1|" + std::to_string(world.servers[0]->port()) + "|" + userName() +
                   "|100%\n");
  }

  // Its host key is checked as any other's.
  void hostKeyOfTheServerBehind() {
    WORLD(world);
    world.extraClientConfig = "ProxyCommand " + serverCommand(world) + "\n";
    world.prompter->acceptHostKeys = false;
    SshConnection refused({.host = "n1"}, world.options());
    QCOMPARE(refused.connect().code(), Code::kPermissionDenied);
    QCOMPARE(world.prompter->hostKeys().size(), std::size_t{1});
    world.trustAll();
    world.servers[0]->replaceHostKey();
    SshConnection changed({.host = "n1"}, world.options());
    QVERIFY(has(changed.connect().error().what, "has changed"));
  }

  void failureSaysWhatTheCommandSaid_data() {
    QTest::addColumn<QByteArray>("command");
    QTest::addColumn<QByteArray>("why");
    QTest::newRow("stderr and status") << QByteArray("sh -c 'echo no way through >&2; exit 3'")
                                       << QByteArray("ended with status 3: no way through");
    QTest::newRow("no output") << QByteArray("false") << QByteArray("ended with status 1");
    QTest::newRow("done at once") << QByteArray("true") << QByteArray("ended with status 0");
    QTest::newRow("not there") << QByteArray("/no/such/program %h")
                               << QByteArray("/no/such/program");
    QTest::newRow("a signal") << QByteArray("sh -c 'kill -TERM $$'")
                              << QByteArray("ended by signal 15");
    QTest::newRow("floods stderr")
        << QByteArray(
               "sh -c 'head -c 1000000 /dev/zero | tr \"\\\\0\" x >&2; echo last >&2; exit 1'")
        << QByteArray("xlast");
    QTest::newRow("ends, but its child holds stderr")
        << QByteArray("sh -c 'sleep 1234.5 <&- >&- & echo left >&2; exit 2'")
        << QByteArray("ended with status 2: left");
    QTest::newRow("not SSH") << QByteArray("sh -c 'yes nonsense | head -n 100000; echo bye >&2'")
                             << QByteArray("");
    QTest::newRow("closes stdout and stays")
        << QByteArray("sh -c 'echo stays >&2; exec sleep 1234.5 >&- <&-'")
        << QByteArray("says: stays");
  }
  void failureSaysWhatTheCommandSaid() {
    QFETCH(QByteArray, command);
    QFETCH(QByteArray, why);
    WORLD(world);
    world.trustAll();
    world.extraClientConfig = "ProxyCommand " + command.toStdString() + "\n";
    SshConnection connection({.host = "n1"}, world.options());
    QElapsedTimer timer;
    timer.start();
    const Status status = connection.connect();
    QCOMPARE(status.code(), Code::kUnavailable);
    QVERIFY2(timer.elapsed() < 30000, std::to_string(timer.elapsed()).c_str());
    QVERIFY2(has(status.error().what, "ProxyCommand of n1"), status.error().text().c_str());
    QVERIFY2(has(status.error().why, why.toStdString()), status.error().text().c_str());
    QVERIFY2(has(status.error().next, "ssh n1"), status.error().text().c_str());
    QCOMPARE(connection.status().state, LinkState::kFailed);
    QVERIFY(test::waitFor([] { return processesWith("1234.5").empty(); }));
    QCOMPARE(childProcesses().size(), childrenBefore_.size() + 1);
  }

  void hangingCommandIsBoundedAndEnded_data() {
    QTest::addColumn<QByteArray>("command");
    QTest::newRow("sleeps") << QByteArray("sleep 1234.5");
    QTest::newRow("has children") << QByteArray("sh -c 'sleep 1234.5 & sleep 1234.5; true'");
    QTest::newRow("ignores hanging up")
        << QByteArray("sh -c 'trap \"\" HUP TERM; sleep 1234.5; sleep 1234.5'");
    QTest::newRow("is stopped") << QByteArray("sh -c 'kill -STOP $$; sleep 1234.5'");
    QTest::newRow("banner only") << QByteArray("sh -c 'echo SSH-2.0-x; exec sleep 1234.5'");
  }
  void hangingCommandIsBoundedAndEnded() {
    QFETCH(QByteArray, command);
    WORLD(world);
    world.trustAll();
    world.extraClientConfig = "ProxyCommand " + command.toStdString() + "\n";
    auto options = world.options();
    options.connectTimeout = milliseconds(400);
    SshConnection late({.host = "n1"}, options);
    QElapsedTimer timer;
    timer.start();
    const Status status = late.connect();
    QCOMPARE(status.code(), Code::kDeadlineExceeded);
    QVERIFY2(timer.elapsed() < 30000, std::to_string(timer.elapsed()).c_str());
    QVERIFY2(has(status.error().what, "in time"), status.error().text().c_str());
    QVERIFY(test::waitFor([] { return processesWith("1234.5").empty(); }));
    QCOMPARE(childProcesses().size(), childrenBefore_.size() + 1);
    // Cancelled, and closed, while it hangs.
    options.connectTimeout = std::chrono::minutes(10);
    for (const bool cancel : {true, false}) {
      SshConnection waiting({.host = "n1"}, options);
      waiting.start();
      QVERIFY(test::waitFor([&] { return childProcesses().size() == childrenBefore_.size() + 2; }));
      timer.start();
      if (cancel) {
        std::stop_source stop;
        stop.request_stop();
        QCOMPARE(waiting.connect(stop.get_token()).code(), Code::kCancelled);
      } else {
        waiting.close();
      }
      QVERIFY(test::waitFor([&] { return childProcesses().size() == childrenBefore_.size() + 1; }));
      QVERIFY2(timer.elapsed() < 30000, std::to_string(timer.elapsed()).c_str());
      QVERIFY(test::waitFor([] { return processesWith("1234.5").empty(); }));
    }
  }

  // Whatever ends a link, the command of it ends with it, and a new one carries the next.
  void everyEndIsFollowedByANewCommand() {
    WORLD(world);
    world.trustAll();
    // Its own process beside the server's, and chatter on stderr that fills any pipe.
    const std::string relay = world.folder / "relay";
    test::writeText(relay,
                    "#!/bin/sh\nhead -c 300000 /dev/zero >&2\nexec " + serverCommand(world) + "\n",
                    0755);
    world.extraClientConfig = "ProxyCommand " + relay + "\n";
    auto options = world.options();
    options.firstPause = milliseconds(10);
    options.keepaliveInterval = milliseconds(200);
    options.keepaliveLimit = milliseconds(3000);
    const unsigned seed = std::random_device{}();
    qInfo("seed %u", seed);
    std::mt19937 random(seed);
    {
      SshConnection connection({.host = "n1"}, options);
      VERIFY_OK(connection.connect());
      std::vector<int> ways = {SIGKILL, SIGTERM, SIGSTOP, SIGHUP, SIGKILL, SIGSTOP};
      std::shuffle(ways.begin(), ways.end(), random);
      for (const int way : ways) {
        const pid_t command = commandPid();
        QVERIFY(command > 0);
        QCOMPARE(::kill(command, way), 0);
        QVERIFY(test::waitFor([&] {
          return connection.status().state == LinkState::kConnected && commandPid() != command &&
                 commandPid() > 0;
        }));
        VERIFY_OK(connection.waitConnected(std::chrono::seconds(60)));
        auto result = connection.exec("echo here");
        VERIFY_OK(result);
        QCOMPARE(result->output, std::string("here\n"));
        QVERIFY(::kill(command, 0) != 0);
        QCOMPARE(childProcesses().size(), childrenBefore_.size() + 2);
      }
      // Where it fails for a while, it is tried again.
      test::writeText(relay, "#!/bin/sh\nexit 1\n", 0755);
      ::kill(commandPid(), SIGKILL);
      QVERIFY(test::waitFor([&] {
        const auto status = connection.status();
        return status.state == LinkState::kReconnecting && status.attempt > 2;
      }));
      QVERIFY(has(connection.status().reason->why, "status 1"));
      test::writeText(relay, "#!/bin/sh\nexec " + serverCommand(world) + "\n", 0755);
      QVERIFY(test::waitFor([&] { return connection.status().state == LinkState::kConnected; }));
      VERIFY_OK(connection.exec("true"));
    }
    QCOMPARE(childProcesses().size(), childrenBefore_.size() + 1);
  }

 private:
  static std::string userName() {
    std::string name;
    test::runCommand({"id", "-un"}, &name);
    name.pop_back();
    return name;
  }
  // The child that is not the server.
  pid_t commandPid() const {
    for (const pid_t pid : childProcesses()) {
      if (std::binary_search(childrenBefore_.begin(), childrenBefore_.end(), pid)) continue;
      if (!has(test::readText("/proc/" + std::to_string(pid) + "/cmdline"), "-D")) {
        const std::string stat = test::readText("/proc/" + std::to_string(pid) + "/stat");
        if (!has(stat, ") Z ")) return pid;
      }
    }
    return -1;
  }
  std::vector<pid_t> childrenBefore_;
  std::map<std::string, std::string> descriptorsBefore_;
};

QTEST_GUILESS_MAIN(ProxyCommandTest)
#include "proxy_command_test.moc"
