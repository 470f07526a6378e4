// Sessions to gates, shared by the connections through them, against real sshd.
#include <QTest>

#include <ctime>
#include <mutex>
#include <thread>

#include "app/ssh/ssh_connection.h"
#include "app/ssh/ssh_gates.h"
#include "tests/support/ssh_world.h"

using namespace lockstep;
using namespace lockstep::app;
using std::chrono::milliseconds;
using Connections = std::vector<std::unique_ptr<SshConnection>>;

namespace {

constexpr std::chrono::seconds kLimit{60};

// Servers n1, n2, …, and connections that share their sessions to gates.
struct GateWorld : test::SshWorld {
  std::shared_ptr<SshShared> shared = std::make_shared<SshShared>();

  bool serveAll(int servers, const std::string& config) {
    for (int i = 0; i < servers; ++i)
      if (!serve()) return false;
    extraClientConfig = config;
    trustAll();
    return true;
  }
  SshConnectionOptions sharing() const {
    SshConnectionOptions settings = options();
    settings.shared = shared;
    settings.firstPause = milliseconds(20);
    return settings;
  }
  Connections startAll(const std::vector<std::string>& hosts) const {
    const SshConnectionOptions settings = sharing();  // writes the file that all of them read
    Connections all;
    for (const std::string& host : hosts) {
      all.push_back(std::make_unique<SshConnection>(SshTarget{.host = host}, settings));
      all.back()->start();
    }
    return all;
  }
  // How often a server, from 1, has let somebody in.
  int logins(std::size_t server) const {
    const QString log = QString::fromStdString(servers[server - 1]->log());
    return static_cast<int>(log.count("Accepted publickey"));
  }
  // Whether no process of a server, from 1, serves a session.
  bool isIdle(std::size_t server) const { return servers[server - 1]->freeze(false) == 0; }
};

void areConnected(const Connections& all) {
  for (const auto& connection : all) {
    VERIFY_OK(connection->waitConnected(kLimit));
    VERIFY_OK(connection->exec("true"));
  }
}

}  // namespace

class SshGatesTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  // Of routes that begin alike, however they are written, the sessions to the common gates are
  // shared.
  void chains() {
    GateWorld world;
    if (!world.serveAll(5,
                        "Host n3\n  ProxyJump n1,n2\nHost n4\n  ProxyJump second\n"
                        "Host n5 second\n  ProxyJump n1\n"))
      QSKIP(world.why.c_str());
    world.extraClientConfig += "Host second\n  HostName 127.0.0.1\n  Port " +
                               std::to_string(world.servers[1]->port()) + "\n";
    const Connections all = world.startAll({"n3", "n4", "n5", "n2", "n3"});
    areConnected(all);
    if (QTest::currentTestFailed()) return;
    QCOMPARE(world.logins(1), 1);
    QCOMPARE(world.logins(2), 2);  // as a gate, and as a host
    QCOMPARE(world.logins(3), 2);
  }

  // What a gate is called makes no difference; how it is reached does.
  void whatIsTheSameGate() {
    GateWorld world;
    if (!world.serveAll(2, "")) QSKIP(world.why.c_str());
    const std::string gate =
        "\n  HostName 127.0.0.1\n  Port " + std::to_string(world.servers[0]->port()) + "\n";
    world.extraClientConfig = "Host alias" + gate + "Host other" + gate + "  IdentitiesOnly yes\n";
    for (const char* name : {"n1", "alias", "other"})
      world.extraClientConfig +=
          "Host by-" + std::string(name) + "\n  HostName 127.0.0.1\n  Port " +
          std::to_string(world.servers[1]->port()) + "\n  ProxyJump " + name + "\n";
    const Connections same = world.startAll({"by-n1", "by-alias", "by-n1"});
    areConnected(same);
    if (QTest::currentTestFailed()) return;
    QCOMPARE(world.logins(1), 1);
    const Connections other = world.startAll({"by-other"});
    areConnected(other);
    if (QTest::currentTestFailed()) return;
    QCOMPARE(world.logins(1), 2);
  }

  // The gate lasts as long as one uses it, whoever opened it.
  void lastsUntilItsLastUserLeaves() {
    GateWorld world;
    if (!world.serveAll(4, "Host n2 n3 n4\n  ProxyJump n1\n")) QSKIP(world.why.c_str());
    Connections all = world.startAll({"n2"});
    areConnected(all);
    for (auto& one : world.startAll({"n3", "n4"})) all.push_back(std::move(one));
    areConnected(all);
    if (QTest::currentTestFailed()) return;
    Result<ExecResult> slow = ExecResult{};
    std::thread running([&] { slow = all[1]->exec("sleep 1; echo done"); });
    all[0]->close();
    all[2]->close();
    running.join();
    VERIFY_OK(slow);
    QCOMPARE(slow->output, std::string("done\n"));
    QVERIFY(!world.isIdle(1));
    QCOMPARE(world.logins(1), 1);
    all[1]->close();
    QVERIFY(test::waitFor([&] { return world.isIdle(1); }));
    const Connections later = world.startAll({"n2"});
    areConnected(later);
    if (QTest::currentTestFailed()) return;
    QCOMPARE(world.logins(1), 2);
  }

  void isOpenedAnewOnceAfterALoss() {
    GateWorld world;
    if (!world.serveAll(4, "Host n2 n3 n4\n  ProxyJump n1\n")) QSKIP(world.why.c_str());
    const Connections all = world.startAll({"n2", "n3", "n4"});
    areConnected(all);
    if (QTest::currentTestFailed()) return;
    QVERIFY(world.servers[0]->killSessions() > 0);
    for (std::size_t server = 2; server <= 4; ++server)
      QVERIFY(test::waitFor([&] { return world.logins(server) == 2; }));
    areConnected(all);
    if (QTest::currentTestFailed()) return;
    QCOMPARE(world.logins(1), 2);
  }

  // A host that is joined through a gate whose loss is not known yet is tried again.
  void aDeadGateIsReplaced() {
    GateWorld world;
    if (!world.serveAll(3, "Host n2 n3\n  ProxyJump n1\n")) QSKIP(world.why.c_str());
    auto options = world.sharing();
    options.keepaliveInterval = milliseconds(500);
    options.keepaliveLimit = milliseconds(3000);
    options.connectTimeout = std::chrono::seconds(30);
    SshConnection first({.host = "n2"}, options), second({.host = "n3"}, options);
    VERIFY_OK(first.connect());
    QVERIFY(world.servers[0]->freeze(true) > 0);
    VERIFY_OK(second.connect());
    QVERIFY(test::waitFor([&] { return first.exec("true").ok(); }));
    QCOMPARE(world.logins(1), 2);
  }

  void hostsThatAreAwayAreNamed() {
    GateWorld world;
    if (!world.serveAll(3, "Host n2 n3\n  ProxyJump n1\n")) QSKIP(world.why.c_str());
    world.servers[2]->stop();
    auto options = world.sharing();
    options.node = "first";
    SshConnection first({.host = "n2"}, options);
    VERIFY_OK(first.connect());
    options.node = "second";
    SshConnection second({.host = "n3"}, options);
    const Status status = second.connect();
    QCOMPARE(status.code(), Code::kUnavailable);
    QCOMPARE(status.error().node, std::string("second"));
    QVERIFY2(status.error().what.text().find("jump host n1") != std::string::npos,
             status.error().text().c_str());
    VERIFY_OK(first.exec("true"));
    QCOMPARE(world.logins(1), 1);
  }

  void manyBytesOfSeveralHosts() {
    GateWorld world;
    if (!world.serveAll(4, "Host n2 n3 n4\n  ProxyJump n1\n")) QSKIP(world.why.c_str());
    const Connections all = world.startAll({"n2", "n3", "n4", "n2"});
    areConnected(all);
    if (QTest::currentTestFailed()) return;
    std::vector<std::thread> threads;
    std::vector<bool> equal(all.size());
    std::mutex mutex;
    for (std::size_t i = 0; i < all.size(); ++i)
      threads.emplace_back([&, i] {
        ExecOptions options;
        options.input.resize(8 << 20);
        options.outputLimit = options.input.size() + 1;
        for (std::size_t at = 0; at < options.input.size(); ++at)
          options.input[at] = static_cast<char>((at + i) * 2654435761u >> 13);
        const auto result = all[i]->exec("cat", options);
        const std::lock_guard lock(mutex);
        equal[i] = result.ok() && result->output == options.input;
      });
    for (auto& thread : threads) thread.join();
    for (const bool one : equal) QVERIFY(one);
    QCOMPARE(world.logins(1), 1);
  }

  // A host that takes nothing any more, and is given up, costs the others nothing.
  void aFrozenHostIsLeft() {
    GateWorld world;
    if (!world.serveAll(3, "Host n2 n3\n  ProxyJump n1\n")) QSKIP(world.why.c_str());
    const Connections all = world.startAll({"n2", "n3"});
    areConnected(all);
    if (QTest::currentTestFailed()) return;
    std::vector<std::thread> threads;  // send more than fits into the buffers on the way
    for (int i = 0; i < 8; ++i)
      threads.emplace_back([&] {
        ExecOptions options;
        options.input.assign(16 << 20, 'x');
        while (all[0]->exec("cat >/dev/null", options).ok()) {
        }
      });
    QTest::qWait(500);
    const int frozen = world.servers[1]->freeze(true);
    QTest::qWait(1000);
    all[0]->close();
    for (auto& thread : threads) thread.join();
    QVERIFY(frozen > 0);
    const std::clock_t before = std::clock();
    QTest::qWait(1000);
    const double busy = static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
    QVERIFY2(busy < 0.5, std::to_string(busy).c_str());
    VERIFY_OK(all[1]->exec("true"));
    QCOMPARE(world.logins(1), 1);
  }
};

QTEST_GUILESS_MAIN(SshGatesTest)
#include "ssh_gates_test.moc"
