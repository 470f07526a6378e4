// Runs of two nodes on the loopback: mutual TLS among supervisors, Gloo among workers.
#include <arpa/inet.h>
#include <grpcpp/grpcpp.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <QTest>

#include "agent/supervisor/peers.h"
#include "engine/base/file.h"
#include "tests/agent/agent_node.h"
#include "tests/agent/run_keys.h"

using namespace lockstep;
using namespace lockstep::agent_test;

namespace {

constexpr std::int64_t kEndless = 100'000'000;

struct TwoNodes {
  Node first{"n1"}, second{"n2"};
  RunAuthority authority;
  RunOptions options;
  node::v1::PrepareReply prepared[2];
  std::unique_ptr<node::v1::Supervisor::Stub> coordinator;
  std::unique_ptr<Follower> records[2];

  // The second node's agent is that of `program`, a folder, where one is given.
  TwoNodes(std::int64_t steps, const QString& program = {}) {
    options = {
        .run = newRunId(), .nodes = {"n1", "n2"}, .ranks = 1, .comm = "gloo", .maxSteps = steps};
    first.start();
    const QByteArray usual = qgetenv("LOCKSTEP_BIN");
    if (!program.isEmpty()) qputenv("LOCKSTEP_BIN", program.toUtf8());
    second.start();
    qputenv("LOCKSTEP_BIN", usual);
  }
  node::v1::PrepareRequest request(int node) {
    auto out = prepareRequest(options, node);
    const std::string& name = options.nodes[static_cast<std::size_t>(node)];
    *out.mutable_tls() = authority.identity(agent::peerIdentity(options.run, name, 1));
    out.set_coordinator_address(node == 0 ? "" : prepared[0].peer_address());
    return out;
  }
  void prepare(int node, const node::v1::PrepareRequest& request) {
    Node& at = node == 0 ? first : second;
    const grpc::Status status = at.agent().Prepare(deadline().get(), request, &prepared[node]);
    if (!status.ok()) throw std::runtime_error(status.error_message());
    records[node] = std::make_unique<Follower>(prepared[node].socket());
    if (node == 0) coordinator = node::v1::Supervisor::NewStub(channelTo(prepared[0].socket()));
  }
  void commit() {
    node::v1::CommitRequest commit;
    commit.set_run(options.run);
    commit.set_generation(1);
    node::v1::CommitReply reply;
    const grpc::Status status = coordinator->Commit(deadline().get(), commit, &reply);
    if (!status.ok()) throw std::runtime_error(status.error_message());
  }
  void launch() {
    prepare(0, request(0));
    prepare(1, request(1));
    commit();
  }
  // The run ended before its first step, because of what rank 1 on n2 has.
  void expectDifference(const std::string& thing) {
    for (auto& one : records) {
      QVERIFY(one->waitFinished());
      QCOMPARE(one->state(), run::v1::FAILED);
      QVERIFY(one->lastStep(0) <= 0 && one->lastStep(1) <= 0);
    }
    const auto all = records[0]->records();
    const auto error =
        std::find_if(all.begin(), all.end(), [](const auto& r) { return r.has_error(); });
    QVERIFY(error != all.end());
    QCOMPARE(error->error().node(), std::string("n2"));
    QCOMPARE(error->error().rank(), 1);
    QVERIFY2(error->error().what().text() == "rank 1 differs from rank 0 in its " + thing,
             error->error().what().text().c_str());
    QVERIFY(!error->error().why().text().empty() && !error->error().next().text().empty());
  }
  bool underWay() {
    return eventually([&] { return records[0]->lastStep(0) >= 3 && records[1]->lastStep(1) >= 3; },
                      60);
  }
};

int supervisorAt(const std::string& run, const std::string& workdir) {
  for (int pid : processesOfRun(run)) {
    QFile file(QString("/proc/%1/cmdline").arg(pid));
    if (!file.open(QIODevice::ReadOnly)) continue;
    const QByteArray command = file.readAll();
    if (command.contains("supervise") && command.contains(workdir.c_str())) return pid;
  }
  return -1;
}

}  // namespace

class AgentPeersTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  void twoNodesTrainTogether() {
    TwoNodes nodes(50);
    nodes.launch();
    const auto kept = [&](int node) {
      const Node& at = node == 0 ? nodes.first : nodes.second;
      return readFile(at.workdir() + "/runs/" + nodes.options.run + "/" + at.name() +
                      "/request.pb");
    };
    // The run's private keys are in memory alone once they have been read.
    for (int node = 0; node < 2; ++node) {
      QVERIFY(kept(node).ok());
      QVERIFY(kept(node)->find("PRIVATE KEY") == std::string::npos);
    }
    for (int node = 0; node < 2; ++node) {
      QVERIFY(nodes.records[node]->waitFinished(120));
      QVERIFY2(nodes.records[node]->state() == run::v1::SUCCEEDED,
               nodes.records[node]->error().c_str());
      QCOMPARE(nodes.records[node]->lastStep(node), 50);
    }
    const auto first = nodes.records[0]->records();
    const auto started =
        std::find_if(first.begin(), first.end(), [](const auto& r) { return r.has_started(); });
    QVERIFY(started != first.end());
    QCOMPARE(started->started().world(), 2);
    QVERIFY(first.back().finished().weights_sha256().size() == 64);
  }

  // Each node alone finds its files good.
  void otherDataOnOneNodeIsNamed() {
    TwoNodes nodes(50);
    nodes.prepare(0, nodes.request(0));
    node::v1::PrepareRequest second = nodes.request(1);
    const std::string folder = "/usr/share/datasets/fashion-mnist/";
    (*second.mutable_data_paths())["train.images"] = folder + "t10k-images-idx3-ubyte.gz";
    (*second.mutable_data_paths())["train.labels"] = folder + "t10k-labels-idx1-ubyte.gz";
    nodes.prepare(1, second);
    nodes.commit();
    nodes.expectDifference("data");
  }

  void anotherSpecOnOneNodeIsNamed() {
    TwoNodes nodes(50);
    nodes.prepare(0, nodes.request(0));
    node::v1::PrepareRequest second = nodes.request(1);
    second.mutable_spec()->mutable_training()->mutable_optimizer()->set_learning_rate(0.06);
    nodes.prepare(1, second);
    nodes.commit();
    nodes.expectDifference("spec");
  }

  void anotherProgramOnOneNodeIsNamed() {
    const QString folder = qEnvironmentVariable("LOCKSTEP_BIN");
    QTemporaryDir other;
    QVERIFY(QFile::copy(folder + "/lockstep-agent", other.filePath("lockstep-agent")));
    QFile program(other.filePath("lockstep-agent"));
    QVERIFY(program.open(QIODevice::Append) && program.write("\n") == 1);
    program.close();
    TwoNodes nodes(50, other.path());
    nodes.launch();
    nodes.expectDifference("program");
  }

  void aKilledWorkerEndsTheRunOnBothNodes() {
    TwoNodes nodes(kEndless);
    nodes.launch();
    QVERIFY(nodes.underWay());
    QVERIFY(nodes.records[1]->waitFor([](const auto& r) { return r.has_clock(); }));
    kill(nodes.records[1]->pidOf(1), SIGKILL);
    for (auto& records : nodes.records) {
      QVERIFY(records->waitFinished());
      QCOMPARE(records->state(), run::v1::FAILED);
      QVERIFY2(records->error().find("SIGKILL") != std::string::npos, records->error().c_str());
    }
    QVERIFY(eventually([&] { return processesOfRun(nodes.options.run).size() <= 2; }));
  }

  void aKilledSupervisorEndsTheRunOnTheOther_data() {
    QTest::addColumn<int>("which");
    QTest::newRow("coordinator") << 0;
    QTest::newRow("other") << 1;
  }
  void aKilledSupervisorEndsTheRunOnTheOther() {
    QFETCH(int, which);
    TwoNodes nodes(kEndless);
    nodes.launch();
    QVERIFY(nodes.underWay());
    const std::string workdir = which == 0 ? nodes.first.workdir() : nodes.second.workdir();
    const int supervisor = supervisorAt(nodes.options.run, workdir);
    QVERIFY(supervisor > 0);
    kill(supervisor, SIGKILL);
    Follower& other = *nodes.records[1 - which];
    QVERIFY(other.waitFinished(60));
    QCOMPARE(other.state(), run::v1::FAILED);
    if (which == 1) QVERIFY2(other.error().find("n2") != std::string::npos, other.error().c_str());
    QVERIFY(eventually([&] { return processesOfRun(nodes.options.run).size() <= 1; }));
  }

  void stopIsAgreed() {
    TwoNodes nodes(kEndless);
    nodes.launch();
    QVERIFY(nodes.underWay());
    node::v1::StopRequest stop;
    stop.set_run(nodes.options.run);
    stop.set_generation(1);
    node::v1::StopReply reply;
    QVERIFY(nodes.coordinator->Stop(deadline().get(), stop, &reply).ok());
    for (auto& records : nodes.records) {
      QVERIFY(records->waitFinished());
      QCOMPARE(records->state(), run::v1::STOPPED);
    }
    QCOMPARE(nodes.records[0]->lastStep(0), nodes.records[1]->lastStep(1));
  }

  void anotherIdentityIsRefused() {
    TwoNodes nodes(50);
    nodes.prepare(0, nodes.request(0));
    auto wrong = nodes.request(1);
    // A certificate of the run's own authority, for another node.
    *wrong.mutable_tls() =
        nodes.authority.identity(agent::peerIdentity(nodes.options.run, "n3", 1));
    nodes.prepare(1, wrong);
    nodes.commit();
    QVERIFY(nodes.records[1]->waitFinished());
    QVERIFY2(nodes.records[1]->error().find("certificate") != std::string::npos,
             nodes.records[1]->error().c_str());
    QVERIFY(nodes.records[0]->lastStep(0) == 0);
    node::v1::KillRequest request;
    request.set_run(nodes.options.run);
    request.set_generation(1);
    node::v1::KillReply reply;
    QVERIFY(nodes.coordinator->Kill(deadline().get(), request, &reply).ok());
    QVERIFY(nodes.records[0]->waitFinished());
  }

  void strangersAtThePortDoNotMatter() {
    TwoNodes nodes(50);
    nodes.prepare(0, nodes.request(0));
    const std::string address = nodes.prepared[0].peer_address();
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port =
        htons(static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
    inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
    QCOMPARE(::connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
    QVERIFY(write(fd, "GET / HTTP/1.0\r\n\r\n", 18) == 18);
    // One without a certificate reaches nothing.
    auto stub =
        node::v1::Peers::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
    auto context = deadline(3);
    auto stream = stub->Join(context.get());
    stream->WritesDone();
    QVERIFY(!stream->Finish().ok());
    nodes.prepare(1, nodes.request(1));
    nodes.commit();
    QVERIFY(nodes.records[0]->waitFinished(120));
    QVERIFY2(nodes.records[0]->state() == run::v1::SUCCEEDED, nodes.records[0]->error().c_str());
    ::close(fd);
  }
};

QTEST_GUILESS_MAIN(AgentPeersTest)
#include "agent_peers_test.moc"
