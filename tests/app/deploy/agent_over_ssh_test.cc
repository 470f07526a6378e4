// The real agent, brought to a node over real sshd, answering gRPC through the forwarded socket.
#include <QElapsedTimer>
#include <QScopeGuard>
#include <QTest>

#include <grpcpp/grpcpp.h>
#include <signal.h>

#include <filesystem>

#include "app/deploy/node_link.h"
#include "engine/specs/protocol.h"
#include "lockstep/node/v1/node.grpc.pb.h"
#include "tests/support/paths.h"
#include "tests/support/sshd.h"
#include "tests/support/systemd.h"

using namespace lockstep;
using namespace lockstep::app;

#define VERIFY_OK(expression)                                                   \
  do {                                                                          \
    const auto& checked = (expression);                                         \
    QVERIFY2(checked.ok(), checked.ok() ? "" : checked.error().text().c_str()); \
  } while (false)

namespace {

// A node whose PATH has the stand-in with these files.
struct SshHost {
  test::TempFolder base;
  std::unique_ptr<test::Sshd> server;
  spec::v1::NodeSpec node;
  NodeLinkOptions options;
  std::string why;

  std::string log() const { return test::readText(base / "systemd/log"); }
  bool start(const QByteArray& there, const std::string& key, const std::string& bundle) {
    std::string path = "/usr/bin:/bin";
    if (there == "nothing") {  // only what deploying needs
      path = base / "few";
      std::filesystem::create_directories(path);
      for (const char* tool :
           {"sh", "cat", "id", "cksum", "cut", "rm", "mkdir", "chmod", "uname", "getconf", "df",
            "tail", "ls", "touch", "dirname", "sha256sum", "find", "readlink", "mv"})
        std::filesystem::create_symlink("/usr/bin/" + std::string(tool), path + "/" + tool);
    } else {
      test::makeSystemd(base / "systemd");
      path = (base / "systemd:") + path;
      for (const QByteArray& file : there.split(' '))
        test::writeText(base / ("systemd/" + file.toStdString()), "");
    }
    test::SshdOptions sshdOptions;
    sshdOptions.extraConfig = "SetEnv SHLVL=1 PATH=" + path;
    server = test::Sshd::start(base / "sshd", key, sshdOptions, &why);
    if (!server) return false;
    test::writeText(base / "known", server->knownHostsLine() + "\n", 0600);
    test::writeText(base / "config", test::sshConfigFor({server.get()}, base / "known", key));
    node.set_name("node-1");
    node.set_workdir(base / "work");
    node.mutable_ssh()->set_host("n1");
    options.configFile = base / "config";
    options.bundleFolder = bundle;
    // Deployed before: what is tested is how it starts.
    std::filesystem::create_directories(base / "work/versions");
    test::runCommand(
        {"cp", "-al", bundle, (base / "work/versions/") + readBundle(bundle)->version});
    return true;
  }
};
bool end(std::int64_t pid) {
  ::kill(static_cast<pid_t>(pid), SIGTERM);
  return test::waitFor([&] {  // exited, though perhaps not reaped yet
    const std::string stat = test::readText("/proc/" + std::to_string(pid) + "/stat");
    return stat.empty() || stat.find(") Z ") != std::string::npos;
  });
}
void isRefused(SshHost& host, const Error& error, const std::string& why) {
  QCOMPARE(error.code, Code::kFailedPrecondition);
  QCOMPARE(error.node, std::string("node-1"));
  QVERIFY2(error.why.text().find(why) != std::string::npos, error.text().c_str());
  QVERIFY2(error.next.text().find("--start detached") != std::string::npos, error.text().c_str());
  // The advice works.
  host.options.start = AgentStart::kDetached;
  NodeLink detached(host.node, host.options);
  const auto second = detached.ensureAgent();
  VERIFY_OK(second);
  QCOMPARE(test::startOf(second->pid), std::string("detached"));
  QVERIFY(end(second->pid));
}

}  // namespace

class AgentOverSshTest : public QObject {
  Q_OBJECT
  test::TempFolder folder_;
  std::string bundle_;

 private Q_SLOTS:
  void initTestCase() {
    std::string output;
    bundle_ = folder_ / "bundle";
    const int made = test::runCommand(
        {lockstep::test::sourcePath("packaging/bundle"), ".", bundle_, LOCKSTEP_AGENT}, &output);
    QVERIFY2(made == 0, output.c_str());
    test::makeKey(folder_ / "id");
  }

  void answersThroughSsh_data() {
    QTest::addColumn<QString>("config");
    QTest::newRow("streamlocal") << "";
    QTest::newRow("bridge") << "DisableForwarding yes";
  }
  void answersThroughSsh() {
    QFETCH(QString, config);
    const std::string base = folder_ / QTest::currentDataTag();
    std::string why;
    test::SshdOptions sshdOptions;
    sshdOptions.extraConfig = config.toStdString();
    auto server = test::Sshd::start(base, folder_ / "id", sshdOptions, &why);
    if (!server) QSKIP(why.c_str());
    test::writeText(base + "/known", server->knownHostsLine() + "\n", 0600);
    test::writeText(base + "/config",
                    test::sshConfigFor({server.get()}, base + "/known", folder_ / "id"));
    spec::v1::NodeSpec node;
    node.set_name("node-1");
    node.set_workdir(base + "/work");
    node.mutable_ssh()->set_host("n1");
    NodeLinkOptions options;
    options.configFile = base + "/config";
    options.bundleFolder = bundle_;
    NodeLink link(node, options);
    QElapsedTimer timer;
    timer.start();
    auto agent = link.ensureAgent();
    VERIFY_OK(agent);
    qInfo("connected, deployed and started in %lld ms", static_cast<long long>(timer.elapsed()));
    const auto stopAgent = qScopeGuard([&] {
      ::kill(static_cast<pid_t>(agent->pid), SIGTERM);
      test::waitFor([&] { return ::kill(static_cast<pid_t>(agent->pid), 0) != 0; });
    });
    QCOMPARE(agent->version, readBundle(bundle_)->version);
    auto path = link.reach(agent->socket);
    VERIFY_OK(path);
    auto stub = node::v1::Agent::NewStub(
        grpc::CreateChannel("unix:" + *path, grpc::InsecureChannelCredentials()));
    const auto shake = [&] {
      grpc::ClientContext context;
      context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
      context.set_wait_for_ready(true);
      node::v1::HandshakeRequest request;
      request.set_protocol(specs::kNewestProtocol);
      node::v1::HandshakeReply reply;
      const grpc::Status status = stub->Handshake(&context, request, &reply);
      return status.ok() ? reply.version() : status.error_message();
    };
    const std::string first = shake();
    QVERIFY2(first == agent->version, first.c_str());
    // The same channel heals after a loss, and the agent was not touched by it.
    QVERIFY(server->killSessions() > 0);
    timer.start();
    // A call that was on its way when the link went may fail; the next one waits for the link.
    std::string answer;
    QVERIFY2(test::waitFor([&] { return (answer = shake()) == agent->version; }), answer.c_str());
    qInfo("healed in %lld ms", static_cast<long long>(timer.elapsed()));
    VERIFY_OK(link.connection()->waitConnected(std::chrono::seconds(60)));
    timer.start();
    auto again = link.ensureAgent();
    VERIFY_OK(again);
    QCOMPARE(again->pid, agent->pid);
    qInfo("found again in %lld ms", static_cast<long long>(timer.elapsed()));
    link.close();
  }

  void startsAsChosen_data() {
    QTest::addColumn<QByteArray>("choice");
    QTest::addColumn<QByteArray>("there");  // files of the stand-in
    QTest::addColumn<QByteArray>("expected");
    QTest::newRow("not chosen") << QByteArray() << QByteArray("manager linger")
                                << QByteArray("detached");
    QTest::newRow("detached") << QByteArray("detached") << QByteArray("manager linger")
                              << QByteArray("detached");
    QTest::newRow("systemd") << QByteArray("systemd") << QByteArray("manager linger")
                             << QByteArray("unit");
    QTest::newRow("systemd without a user manager")
        << QByteArray("systemd") << QByteArray("linger")
        << QByteArray("no user manager answers: Failed to connect to bus");
    QTest::newRow("systemd without lingering")
        << QByteArray("systemd") << QByteArray("manager") << QByteArray("does not linger");
    QTest::newRow("systemd that fails")
        << QByteArray("systemd") << QByteArray("manager linger broken")
        << QByteArray("Job failed.");
    QTest::newRow("no systemd at all") << QByteArray("systemd") << QByteArray("nothing")
                                       << QByteArray("systemd-run is not installed");
    QTest::newRow("auto") << QByteArray("auto") << QByteArray("manager linger")
                          << QByteArray("unit");
    for (const char* there : {"linger", "manager", "manager linger broken", "nothing"})
      QTest::addRow("auto: %s", there)
          << QByteArray("auto") << QByteArray(there) << QByteArray("detached");
  }
  void startsAsChosen() {
    QFETCH(QByteArray, choice);
    QFETCH(QByteArray, there);
    QFETCH(QByteArray, expected);
    SshHost host;
    if (!host.start(there, folder_ / "id", bundle_)) QSKIP(host.why.c_str());
    spec::v1::NodeSpec& node = host.node;
    NodeLinkOptions& options = host.options;
    if (!choice.isEmpty()) options.start = *parseAgentStart(choice.toStdString());
    NodeLink link(node, options);
    const auto agent = link.ensureAgent();
    if (expected != "unit" && expected != "detached") {
      QVERIFY(!agent.ok());
      isRefused(host, agent.error(), expected.toStdString());
      return;
    }
    VERIFY_OK(agent);
    QCOMPARE(test::startOf(agent->pid), expected.toStdString());
    // Asked again it is found; nothing is started a second time.
    const std::string log = host.log();
    const auto again = link.ensureAgent();
    VERIFY_OK(again);
    QCOMPARE(again->pid, agent->pid);
    QCOMPARE(host.log(), log);
    if (expected == "unit") {
      QVERIFY2(log.find("--property=KillMode=process") != std::string::npos &&
                   log.starts_with("/run/user/"),
               log.c_str());
      // The user's session ends; the unit does not.
      QVERIFY(host.server->killSessions() > 0);
      QVERIFY(test::startOf(agent->pid) == "unit");
    }
    // Whoever comes next, without a choice of their own, starts it alike.
    QVERIFY(end(agent->pid));
    options.start.reset();
    NodeLink later(node, options);
    const auto third = later.ensureAgent();
    VERIFY_OK(third);
    QCOMPARE(test::startOf(third->pid), expected.toStdString());
    QVERIFY(end(third->pid));
    // Until another choice is made.
    options.start = AgentStart::kDetached;
    NodeLink back(node, options);
    const auto fourth = back.ensureAgent();
    VERIFY_OK(fourth);
    QCOMPARE(test::startOf(fourth->pid), std::string("detached"));
    QVERIFY(end(fourth->pid));
  }

  // Whatever has become of systemd: its runs can be watched.
  void aServingAgentIsTakenAsItIs() {
    SshHost host;
    if (!host.start("manager", folder_ / "id", bundle_)) QSKIP(host.why.c_str());
    NodeLink link(host.node, host.options);
    const auto agent = link.ensureAgent();
    VERIFY_OK(agent);
    host.options.start = AgentStart::kSystemd;  // the account does not linger
    NodeLink chosen(host.node, host.options);
    const auto same = chosen.ensureAgent();
    VERIFY_OK(same);
    QCOMPARE(same->pid, agent->pid);
    // The next one is to be a unit, and cannot be.
    QVERIFY(end(agent->pid));
    host.options.start.reset();
    NodeLink later(host.node, host.options);
    const auto refused = later.ensureAgent();
    QVERIFY(!refused.ok());
    QVERIFY2(refused.error().text().find("does not linger") != std::string::npos,
             refused.error().text().c_str());
  }
};

QTEST_GUILESS_MAIN(AgentOverSshTest)
#include "agent_over_ssh_test.moc"
