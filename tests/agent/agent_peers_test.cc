// Runs of two nodes on the loopback: mutual TLS among supervisors, Gloo among workers.
#include <grpcpp/grpcpp.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <QMap>
#include <QRegularExpression>
#include <QScopeGuard>
#include <QTest>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <stdexcept>
#include <thread>

#include "agent/supervisor/peers.h"
#include "engine/base/file.h"
#include "engine/base/hex.h"
#include "engine/base/list_folder.h"
#include "engine/base/unique_fd.h"
#include "engine/comm/network_address.h"
#include "engine/weights/checkpoint_files.h"
#include "tests/agent/agent_node.h"
#include "tests/agent/run_keys.h"
#include "tests/support/strangers.h"

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
  // What a node says first, when it joins the coordinator.
  node::v1::FromPeer hello(const std::string& node, int generation = 1) {
    node::v1::FromPeer out;
    out.set_run(options.run);
    out.set_generation(generation);
    out.mutable_hello()->set_node(node);
    out.mutable_hello()->set_plan_hash(prepareRequest(options, 1).plan_hash());
    return out;
  }
  void prepare(int node, const node::v1::PrepareRequest& request) {
    Node& at = node == 0 ? first : second;
    const grpc::Status status = agent_test::prepare(at.agent(), request, &prepared[node]);
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
  // Two agents, two supervisors, two workers.
  std::vector<int> processes() const {
    std::vector<int> out = processesOfRun(options.run);
    if (out.size() < 4) throw std::runtime_error("a process of the run is missing");
    out.insert(out.end(), {first.pid(), second.pid()});
    return out;
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

std::uint16_t portOf(const std::string& address) {
  return static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
}

int descriptorsOf(int pid) {
  return static_cast<int>(listFolder("/proc/" + std::to_string(pid) + "/fd").size());
}

// Asks for a file of a checkpoint.
grpc::StatusCode fetchFrom(node::v1::Peers::Stub& stub, const std::string& run,
                           const std::string& node, std::int64_t step, const std::string& file,
                           int generation = 1) {
  node::v1::FetchShardRequest request;
  request.set_run(run);
  request.set_node(node);
  request.set_step(step);
  request.set_file(file);
  request.set_generation(generation);
  const auto context = deadline();
  const auto reader = stub.FetchShard(context.get(), request);
  node::v1::FetchChunk chunk;
  while (reader->Read(&chunk)) continue;
  return reader->Finish().error_code();
}

// Shakes hands by this identity, as one that knows no version after `newest`. Returns the version
// that both ends have agreed on; "": none.
std::string handshake(int fd, const node::v1::TlsIdentity& identity, int newest, bool accepts) {
  signal(SIGPIPE, SIG_IGN);
  const auto read = [](const std::string& pem, auto parse) {
    BIO* bio = BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()));
    auto* out = parse(bio, nullptr, nullptr, nullptr);
    BIO_free(bio);
    return out;
  };
  SSL_CTX* context = SSL_CTX_new(TLS_method());
  SSL_CTX_clear_options(context, SSL_OP_NO_TLSv1_2);
  SSL_CTX_set_max_proto_version(context, newest);
  X509* certificate = read(identity.certificate_pem(), PEM_read_bio_X509);
  EVP_PKEY* key = read(identity.key_pem(), PEM_read_bio_PrivateKey);
  std::string version;
  if (SSL_CTX_use_certificate(context, certificate) == 1 &&
      SSL_CTX_use_PrivateKey(context, key) == 1) {
    SSL* tls = SSL_new(context);
    SSL_set_fd(tls, fd);
    if ((accepts ? SSL_accept(tls) : SSL_connect(tls)) == 1) version = SSL_get_version(tls);
    SSL_free(tls);
  }
  EVP_PKEY_free(key);
  X509_free(certificate);
  SSL_CTX_free(context);
  return version;
}

// A stream to the coordinator by this identity, as a supervisor opens it. Without a certificate
// where the identity has none.
class RawMember {
 public:
  RawMember(const std::string& address, const node::v1::TlsIdentity& identity) {
    using namespace grpc::experimental;
    TlsChannelCredentialsOptions options;
    std::vector<IdentityKeyCertPair> pairs;
    if (!identity.certificate_pem().empty())
      pairs.push_back({identity.key_pem(), identity.certificate_pem()});
    options.set_certificate_provider(
        std::make_shared<StaticDataCertificateProvider>(identity.ca_pem(), pairs));
    options.watch_root_certs();
    if (!pairs.empty()) options.watch_identity_key_cert_pairs();
    options.set_verify_server_certs(true);
    options.set_check_call_host(false);
    options.set_certificate_verifier(std::make_shared<NoOpCertificateVerifier>());
    stub_ = node::v1::Peers::NewStub(grpc::CreateChannel(address, TlsCredentials(options)));
    context_ = deadline();
    stream_ = stub_->Join(context_.get());
  }
  bool say(const node::v1::FromPeer& message) { return stream_->Write(message); }
  // Asks for a value of the run's store, with run and generation of `as`; "" where the stream ends
  // before it comes.
  std::string valueOf(const std::string& key, node::v1::FromPeer as) {
    as.mutable_kv_get()->set_key(key);
    node::v1::ToPeer message;
    for (bool more = say(as); more; more = stream_->Read(&message))
      if (message.kv_value().key() == key) return message.kv_value().value();
    return {};
  }
  grpc::StatusCode fetch(const std::string& run, const std::string& node, std::int64_t step,
                         const std::string& file) {
    return fetchFrom(*stub_, run, node, step, file);
  }
  // Reads to the end.
  grpc::Status end() {
    node::v1::ToPeer message;
    while (stream_->Read(&message)) continue;
    return stream_->Finish();
  }

 private:
  std::unique_ptr<node::v1::Peers::Stub> stub_;
  std::unique_ptr<grpc::ClientContext> context_;
  std::unique_ptr<grpc::ClientReaderWriter<node::v1::FromPeer, node::v1::ToPeer>> stream_;
};

// The soft limits of a process, by name.
QMap<QString, QString> limitsOf(const std::string& pid) {
  static const QRegularExpression columns("  +");
  QMap<QString, QString> out;
  const std::string text = must(readFile("/proc/" + pid + "/limits", 1 << 16));
  for (const QString& line : QString::fromStdString(text).split('\n', Qt::SkipEmptyParts)) {
    const QStringList words = line.split(columns);
    out[words[0]] = words.value(1);
  }
  return out;
}

// Returns the key by which rank 0 connects to rank 1, in hexadecimal, as rank 1 has announced it.
// Joins as n2 for that, which joins again soon after.
std::string groupKey(TwoNodes& nodes) {
  const auto identity = nodes.authority.identity(agent::peerIdentity(nodes.options.run, "n2", 1));
  const node::v1::FromPeer hello = nodes.hello("n2");
  std::string announced;
  eventually([&] {
    RawMember member(nodes.prepared[0].peer_address(), identity);
    if (member.say(hello)) announced = member.valueOf(nodes.options.run + "/1/data/0/1", hello);
    return !announced.empty();
  });
  return announced.substr(announced.rfind(' ') + 1);
}

}  // namespace

class AgentPeersTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  void twoNodesTrainTogether() {
    TwoNodes nodes(50);
    nodes.launch();
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
      QVERIFY(records->records().back().finished().agreed());
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

  // The run's certificate authority vouches for the coordinator, but it is not n1 of this run.
  void anotherCoordinatorIsRefused_data() {
    QTest::addColumn<QString>("node");
    QTest::addColumn<int>("generation");
    QTest::addColumn<grpc::StatusCode>("code");
    QTest::newRow("another node") << "n3" << 1 << grpc::StatusCode::UNAVAILABLE;
    QTest::newRow("another generation") << "n1" << 2 << grpc::StatusCode::UNAVAILABLE;
    QTest::newRow("itself") << "n1" << 1 << grpc::StatusCode::NOT_FOUND;  // no such file
  }
  void anotherCoordinatorIsRefused() {
    QFETCH(QString, node);
    QFETCH(int, generation);
    QFETCH(grpc::StatusCode, code);
    TwoNodes nodes(50);
    auto coordinator = nodes.request(0);
    *coordinator.mutable_tls() = nodes.authority.identity(
        agent::peerIdentity(nodes.options.run, node.toStdString(), generation));
    nodes.prepare(0, coordinator);
    // As the supervisor of n2 connects.
    const auto stub = node::v1::Peers::NewStub(
        agent::peerChannel(nodes.request(1), "n1", nodes.prepared[0].peer_address()));
    QCOMPARE(fetchFrom(*stub, nodes.options.run, "n2", 1, "state.safetensors"), code);
  }

  void plaintextIsRefused() {
    TwoNodes nodes(50);
    nodes.prepare(0, nodes.request(0));
    auto stub = node::v1::Peers::NewStub(
        grpc::CreateChannel(nodes.prepared[0].peer_address(), grpc::InsecureChannelCredentials()));
    auto context = deadline();
    auto stream = stub->Join(context.get());
    stream->WritesDone();
    QVERIFY(!stream->Finish().ok());
    nodes.prepare(1, nodes.request(1));
    nodes.commit();
    QVERIFY(nodes.records[0]->waitFinished(120));
    QVERIFY2(nodes.records[0]->state() == run::v1::SUCCEEDED, nodes.records[0]->error().c_str());
  }

  // The handshake fails: only who has a certificate of the run is heard, and refused by its hello.
  void aPeerWithoutACertificateIsRefused_data() {
    QTest::addColumn<bool>("hasOne");
    QTest::addColumn<bool>("isTheRuns");
    QTest::addColumn<grpc::StatusCode>("code");
    QTest::newRow("none") << false << false << grpc::StatusCode::UNAVAILABLE;
    QTest::newRow("of another authority") << true << false << grpc::StatusCode::UNAVAILABLE;
    QTest::newRow("of the run") << true << true << grpc::StatusCode::PERMISSION_DENIED;
  }
  void aPeerWithoutACertificateIsRefused() {
    QFETCH(bool, hasOne);
    QFETCH(bool, isTheRuns);
    QFETCH(grpc::StatusCode, code);
    TwoNodes nodes(50);
    nodes.prepare(0, nodes.request(0));
    const RunAuthority other;
    const std::string name = agent::peerIdentity(nodes.options.run, "n2", 1);
    node::v1::TlsIdentity identity;
    if (hasOne) identity = (isTheRuns ? nodes.authority : other).identity(name);
    // It trusts the coordinator, so that it is not the one that refuses.
    identity.set_ca_pem(nodes.authority.identity(name).ca_pem());
    RawMember member(nodes.prepared[0].peer_address(), identity);
    member.say(nodes.hello("n2", 2));
    QCOMPARE(member.end().error_code(), code);
  }

  // Whichever end proposes an earlier one.
  void noVersionBeforeTls13IsSpoken_data() {
    QTest::addColumn<int>("newest");
    QTest::addColumn<std::string>("version");
    QTest::newRow("1.2") << int{TLS1_2_VERSION} << std::string();
    QTest::newRow("1.3") << int{TLS1_3_VERSION} << std::string("TLSv1.3");
  }
  void noVersionBeforeTls13IsSpoken() {
    QFETCH(int, newest);
    QFETCH(std::string, version);
    TwoNodes nodes(50);
    nodes.prepare(0, nodes.request(0));
    const UniqueFd joins(test::connectAndSay(portOf(nodes.prepared[0].peer_address()), ""));
    QVERIFY(joins);
    QCOMPARE(handshake(joins.get(), nodes.request(1).tls(), newest, false), version);
    // As the supervisor of n2 connects.
    const auto coordinator = comm::listenAt("127.0.0.1");
    QVERIFY(coordinator.ok());
    const std::jthread connects([&, address = "127.0.0.1:" + std::to_string(coordinator->port)] {
      const auto stub =
          node::v1::Peers::NewStub(agent::peerChannel(nodes.request(1), "n1", address));
      fetchFrom(*stub, nodes.options.run, "n2", 1, "state.safetensors");
    });
    pollfd event{coordinator->socket.get(), POLLIN, 0};
    QCOMPARE(poll(&event, 1, 10'000), 1);
    const UniqueFd accepted(accept4(coordinator->socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
    QCOMPARE(handshake(accepted.get(), nodes.request(0).tls(), newest, true), version);
  }

  void anotherGenerationIsRefused_data() {
    QTest::addColumn<int>("certificate");
    QTest::addColumn<int>("message");
    QTest::newRow("of its certificate") << 2 << 1;
    QTest::newRow("of its messages") << 1 << 2;
  }
  void anotherGenerationIsRefused() {
    QFETCH(int, certificate);
    QFETCH(int, message);
    TwoNodes nodes(50);
    nodes.prepare(0, nodes.request(0));
    RawMember member(nodes.prepared[0].peer_address(), nodes.authority.identity(agent::peerIdentity(
                                                           nodes.options.run, "n2", certificate)));
    member.say(nodes.hello("n2", message));
    QCOMPARE(member.end().error_code(), grpc::StatusCode::PERMISSION_DENIED);
  }

  // What a stream brings, as a vote, is of the node that its hello has named: no node of the run
  // can name another one, or vote without a name.
  void aMemberCannotSpeakForAnother() {
    TwoNodes nodes(50);
    nodes.prepare(0, nodes.request(0));
    const auto identity = nodes.authority.identity(agent::peerIdentity(nodes.options.run, "n2", 1));
    node::v1::FromPeer vote = nodes.hello("n2");
    vote.mutable_vote();
    for (const node::v1::FromPeer& first : {nodes.hello("n1"), vote}) {
      RawMember member(nodes.prepared[0].peer_address(), identity);
      member.say(first);
      QCOMPARE(member.end().error_code(), grpc::StatusCode::PERMISSION_DENIED);
    }
    RawMember itself(nodes.prepared[0].peer_address(), identity);
    node::v1::FromPeer message = nodes.hello("n2");
    QVERIFY(itself.say(message));
    message.mutable_kv_set()->set_key("x");
    message.mutable_kv_set()->set_value("of n2");
    QVERIFY(itself.say(message));
    QCOMPARE(itself.valueOf("x", message), std::string("of n2"));
  }

  // And the trained model. Not its request, its plan, or what lies outside of the run's folder; nor
  // to other callers.
  void onlyCheckpointFilesAreSent() {
    TwoNodes nodes(50);
    nodes.prepare(0, nodes.request(0));
    const std::string& run = nodes.options.run;
    RawMember member(nodes.prepared[0].peer_address(),
                     nodes.authority.identity(agent::peerIdentity(run, "n2", 1)));
    using grpc::StatusCode;
    for (const char* file :
         {"../../plan.txt", "../../request.pb", "/etc/passwd", "manifest.json.old", "",
          "shard-0.safetensors", "shard-00000.safetensors/", "shard--0001.safetensors",
          "shard-00000.safetensors\n", "../step-000000001/state.safetensors",
          "../model.safetensors", "model.safetensors/", "model.safetensors.tmp"})
      QVERIFY2(member.fetch(run, "n2", 1, file) == StatusCode::PERMISSION_DENIED, file);
    QCOMPARE(member.fetch(run, "n2", -1, "state.safetensors"), StatusCode::PERMISSION_DENIED);
    QCOMPARE(member.fetch(run, "n1", 1, "state.safetensors"), StatusCode::PERMISSION_DENIED);
    QCOMPARE(member.fetch(run, "n3", 1, "state.safetensors"), StatusCode::PERMISSION_DENIED);
    QCOMPARE(member.fetch("other", "n2", 1, "state.safetensors"), StatusCode::PERMISSION_DENIED);
    QCOMPARE(member.fetch(run, "n1", 0, "model.safetensors"), StatusCode::PERMISSION_DENIED);
    for (const char* file : {"state.safetensors", "manifest.json", "shard-00000.safetensors",
                             "shard-123456.safetensors", "model.safetensors"})
      QVERIFY2(member.fetch(run, "n2", 1, file) == StatusCode::NOT_FOUND, file);
  }

  // A node that the run goes on without may not have heard of that.
  void onlyMembersOfTheGenerationAreSentFiles() {
    const RunOptions options{
        .run = newRunId(), .nodes = {"n1", "n2", "n3"}, .ranks = 1, .comm = "gloo"};
    const RunAuthority authority;
    const auto requestOf = [&](int node) {
      auto out = prepareRequest(options, node);
      *out.mutable_tls() = authority.identity(agent::peerIdentity(options.run, out.node(), 1));
      return out;
    };
    QTemporaryDir folder;
    const auto checkpoint = weights::checkpointAt(folder.path().toStdString(), 5);
    std::filesystem::create_directories(checkpoint);
    QVERIFY(writeFileAtomically(checkpoint / "state.safetensors", "weights").ok());
    agent::EventLoop loop;
    const auto server = agent::PeerServer::start(loop, "127.0.0.1", requestOf(0),
                                                 {folder.path().toStdString(), {}}, {});
    QVERIFY2(server.ok(), server.ok() ? "" : server.error().text().c_str());
    const auto ask = [&](int node, int generation) {
      const auto request = requestOf(node);
      const auto stub =
          node::v1::Peers::NewStub(agent::peerChannel(request, "n1", (*server)->address()));
      return fetchFrom(*stub, options.run, request.node(), 5, "state.safetensors", generation);
    };
    using grpc::StatusCode;
    for (const int node : {1, 2}) QCOMPARE(ask(node, 1), StatusCode::OK);
    QCOMPARE(ask(1, 2), StatusCode::PERMISSION_DENIED);
    (*server)->setGeneration(2, {"n1", "n3"});
    for (const int generation : {1, 2}) QCOMPARE(ask(1, generation), StatusCode::PERMISSION_DENIED);
    QCOMPARE(ask(2, 1), StatusCode::PERMISSION_DENIED);
    QCOMPARE(ask(2, 2), StatusCode::OK);
    (*server)->setGeneration(3, {"n1", "n2", "n3"});  // n2 is back
    QCOMPARE(ask(1, 3), StatusCode::OK);
  }

  // A size beyond the limit is not believed: the stream ends, and the run's other member joins.
  void tooLargeMessagesEndTheStream() {
    TwoNodes nodes(50);
    nodes.prepare(0, nodes.request(0));
    RawMember member(nodes.prepared[0].peer_address(),
                     nodes.authority.identity(agent::peerIdentity(nodes.options.run, "n2", 1)));
    node::v1::FromPeer message = nodes.hello("n2");
    member.say(message);
    message.mutable_kv_set()->set_key("x");
    message.mutable_kv_set()->set_value(std::string(5 << 20, 'x'));
    member.say(message);
    QVERIFY(!member.end().ok());
    nodes.prepare(1, nodes.request(1));
    nodes.commit();
    QVERIFY(nodes.records[0]->waitFinished(120));
    QVERIFY2(nodes.records[0]->state() == run::v1::SUCCEEDED, nodes.records[0]->error().c_str());
  }

  // The port is at the node's address, and at no other of this host.
  void thePortIsAtOneAddress() {
    TwoNodes nodes(50);
    nodes.prepare(0, nodes.request(0));
    const std::string& address = nodes.prepared[0].peer_address();
    QVERIFY2(address.starts_with("127.0.0.1:"), address.c_str());
    QVERIFY(UniqueFd(test::connectAndSay(portOf(address), "")));
    const UniqueFd other(test::connectAndSay(portOf(address), "", 2));
    QCOMPARE(errno, ECONNREFUSED);
    QVERIFY(!other);
  }

  void whoDoesNotAuthenticateIsCutOff() {
    TwoNodes nodes(kEndless);
    nodes.prepare(0, nodes.request(0));
    const std::uint16_t port = portOf(nodes.prepared[0].peer_address());
    QElapsedTimer clock;
    clock.start();
    const int http = test::connectAndSay(port, "GET / HTTP/1.0\r\n\r\n");
    const int silent = test::connectAndSay(port, "");
    const int half = test::connectAndSay(port, test::beginOfHandshake());
    for (const int fd : {http, silent, half}) QVERIFY(test::isClosed(fd, 10));
    QVERIFY2(clock.elapsed() > 3000 && clock.elapsed() < 10000,
             std::to_string(clock.elapsed()).c_str());
    for (const int fd : {http, silent, half}) ::close(fd);
  }

  // The others have time left, and a member gets in at once.
  void ofTooManyTheOldestAreClosed() {
    TwoNodes nodes(50);
    nodes.prepare(0, nodes.request(0));
    const std::string& address = nodes.prepared[0].peer_address();
    constexpr std::size_t kMost = 128 + 2, kMore = 20;
    QElapsedTimer clock;
    clock.start();
    std::vector<UniqueFd> quiet;
    for (std::size_t i = 0; i < kMost + kMore; ++i) {
      quiet.emplace_back(test::connectAndSay(portOf(address), ""));
      QVERIFY(quiet.back());
    }
    for (std::size_t i = 0; i < kMore; ++i)
      QVERIFY2(test::isClosed(quiet[i].get(), 20), std::to_string(i).c_str());
    RawMember member(address,
                     nodes.authority.identity(agent::peerIdentity(nodes.options.run, "n2", 1)));
    QCOMPARE(member.fetch(nodes.options.run, "n2", 1, "state.safetensors"),
             grpc::StatusCode::NOT_FOUND);
    QVERIFY(!test::isClosed(quiet.back().get(), 0.05));
    QVERIFY2(clock.elapsed() < 5000, std::to_string(clock.elapsed()).c_str());
  }

  // Nodes join, and a run goes on for longer than the limit of a greeting, while strangers come.
  void strangersDoNotDisturbARun() {
    TwoNodes nodes(kEndless);
    nodes.prepare(0, nodes.request(0));
    const test::Strangers strangers(portOf(nodes.prepared[0].peer_address()), 200);
    QVERIFY(eventually([&] { return strangers.opened() >= 200; }));
    const int supervisor = supervisorAt(nodes.options.run, nodes.first.workdir());
    nodes.prepare(1, nodes.request(1));
    nodes.commit();
    QVERIFY(nodes.underWay());
    int most = 0;
    const std::int64_t before = nodes.records[0]->lastStep(0);
    QVERIFY(!eventually(
        [&] {
          most = std::max(most, descriptorsOf(supervisor));
          return nodes.records[0]->state() != run::v1::RUN_STATE_UNSPECIFIED;
        },
        8));
    QVERIFY(strangers.cutOff() > 200);
    QVERIFY2(most < 600, std::to_string(most).c_str());
    for (auto& one : nodes.records) {
      QCOMPARE(one->error(), std::string());
      for (const auto& record : one->records()) {
        const std::string& warning = record.warning().what().text();
        const bool isOfADisk = warning.starts_with("the checkpoint at step") &&
                               (warning.ends_with("was skipped") || warning.ends_with("is late"));
        QVERIFY2(!record.has_warning() || isOfADisk, warning.c_str());
        for (const std::string& line : record.log().lines())
          QVERIFY2(line.find("not connected") == std::string::npos, line.c_str());
      }
    }
    QVERIFY(eventually([&] { return nodes.records[0]->lastStep(0) > before + 3; }));
  }

  // Whatever the account's umask is.
  void keysAreNeitherOnDiskNorInCores() {
    const auto before = umask(0);
    const auto restore = qScopeGuard([&] { umask(before); });
    TwoNodes nodes(kEndless);
    nodes.launch();
    QVERIFY(nodes.underWay());
    const std::string key = groupKey(nodes);
    QCOMPARE(key.size(), std::size_t{64});
    const std::vector<std::string> secrets = {"PRIVATE KEY", key, fromHex(key).value()};
    const auto holdsAKey = [&](const std::string& text) {
      return std::any_of(secrets.begin(), secrets.end(), [&](const std::string& secret) {
        return text.find(secret) != std::string::npos;
      });
    };
    int requests = 0;
    for (const Node* node : {&nodes.first, &nodes.second}) {
      for (const auto& file : std::filesystem::recursive_directory_iterator(node->workdir())) {
        if (!file.is_regular_file()) continue;
        requests += file.path().filename() == "request.pb" ? 1 : 0;
        const auto text = readFile(file.path().string());
        QVERIFY2(!text.ok() || !holdsAKey(*text), file.path().c_str());
        using std::filesystem::perms;
        QVERIFY2(
            (file.status().permissions() & (perms::group_all | perms::others_all)) == perms::none,
            file.path().c_str());
      }
    }
    QCOMPARE(requests, 2);
    for (const int pid : nodes.processes()) {
      const std::string folder = "/proc/" + std::to_string(pid);
      const QString limits = QString::fromStdString(readFile(folder + "/limits", 1 << 16).value());
      QVERIFY2(limits.contains(QRegularExpression("Max core file size +0 ")), qPrintable(limits));
      for (const char* name : {"/cmdline", "/environ"})
        QVERIFY(!holdsAKey(readFile(folder + name, 1 << 20).value()));
    }
  }

  // All others are those of whoever starts the agent.
  void onlyCoresAndOpenFilesAreLimited() {
    rlimit files{};
    QCOMPARE(getrlimit(RLIMIT_NOFILE, &files), 0);
    const auto raised = std::max<rlim_t>(files.rlim_cur, std::min<rlim_t>(files.rlim_max, 65536));
    TwoNodes nodes(kEndless);
    nodes.launch();
    QVERIFY(nodes.underWay());
    const QMap<QString, QString> own = limitsOf("self");
    for (const int pid : nodes.processes()) {
      QMap<QString, QString> limits = limitsOf(std::to_string(pid));
      QCOMPARE(limits.value("Max core file size"), QString("0"));
      QCOMPARE(limits.value("Max open files"), QString::number(raised));
      for (const char* set : {"Max core file size", "Max open files"}) limits[set] = own.value(set);
      QCOMPARE(limits, own);
    }
  }
};

QTEST_GUILESS_MAIN(AgentPeersTest)
#include "agent_peers_test.moc"
