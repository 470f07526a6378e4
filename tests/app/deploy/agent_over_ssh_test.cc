// The real agent, brought to a node over real sshd, answering gRPC through the forwarded socket.
#include <QElapsedTimer>
#include <QScopeGuard>
#include <QTest>

#include <grpcpp/grpcpp.h>
#include <signal.h>

#include "app/deploy/node_link.h"
#include "engine/specs/protocol.h"
#include "lockstep/node/v1/node.grpc.pb.h"
#include "tests/support/paths.h"
#include "tests/support/sshd.h"

using namespace lockstep;
using namespace lockstep::app;

#define VERIFY_OK(expression)                                                   \
  do {                                                                          \
    const auto& checked = (expression);                                         \
    QVERIFY2(checked.ok(), checked.ok() ? "" : checked.error().text().c_str()); \
  } while (false)

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
      context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
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
    VERIFY_OK(link.connection()->waitConnected(std::chrono::seconds(10)));
    timer.start();
    auto again = link.ensureAgent();
    VERIFY_OK(again);
    QCOMPARE(again->pid, agent->pid);
    qInfo("found again in %lld ms", static_cast<long long>(timer.elapsed()));
    link.close();
  }
};

QTEST_GUILESS_MAIN(AgentOverSshTest)
#include "agent_over_ssh_test.moc"
