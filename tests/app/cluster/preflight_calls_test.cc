// A pre-flight's calls to agents that are made up: listeners that end, and one that never answers.
// A node is measured beside its peers.
#include <grpcpp/grpcpp.h>

#include <QElapsedTimer>
#include <QTemporaryDir>
#include <QTest>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <memory>
#include <mutex>
#include <set>
#include <stop_token>
#include <thread>
#include <vector>

#include "app/cluster/node_access.h"
#include "app/cluster/node_debug.h"
#include "app/cluster/preflight.h"
#include "engine/specs/error_info.h"
#include "engine/specs/protocol.h"
#include "lockstep/node/v1/node.grpc.pb.h"
#include "lockstep/spec/v1/spec.pb.h"

using namespace lockstep;
using namespace lockstep::app;
using std::chrono::milliseconds;

namespace {

constexpr milliseconds kListens{3500}, kMeasures{200};

// The ports at which nodes listen.
class Ports {
 public:
  int open() {
    const std::lock_guard lock(mutex_);
    open_.insert(++last_);
    return last_;
  }
  void close(int port) {
    const std::lock_guard lock(mutex_);
    open_.erase(port);
  }
  bool isOpen(int port) {
    const std::lock_guard lock(mutex_);
    return open_.contains(port);
  }

 private:
  std::mutex mutex_;
  std::set<int> open_;
  int last_ = 1000;
};

// Listens for a time and measures for kMeasures; a mute one says nothing when it is to listen.
class MadeUpAgent final : public node::v1::Agent::Service {
 public:
  using BenchStream =
      grpc::ServerReaderWriter<node::v1::BenchTogetherReply, node::v1::BenchTogetherRequest>;
  MadeUpAgent(const std::string& socket, Ports& ports, milliseconds listens, bool mute)
      : ports_(ports), listens_(listens), mute_(mute) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("unix:" + socket, grpc::InsecureServerCredentials());
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~MadeUpAgent() override { server_->Shutdown(std::chrono::system_clock::now()); }

  grpc::Status Bench(grpc::ServerContext* context, const node::v1::BenchRequest* request,
                     node::v1::BenchReply* reply) override {
    while (hangs && !context->IsCancelled()) std::this_thread::sleep_for(milliseconds(20));
    if (fails) return {grpc::StatusCode::INTERNAL, "no"};
    if (speed <= 0) return grpc::Status::OK;
    const std::string& kind = request->speed().kind();
    const auto& gpus = request->speed().devices();
    if (request->ranks() != std::max(1, gpus.size()))
      return {grpc::StatusCode::INVALID_ARGUMENT, "a rank for each GPU"};
    for (int i = 0; i < request->ranks(); ++i) {
      auto* one = reply->add_speeds();
      one->set_name(kind == "gemm"     ? request->speed().precisions(0)
                    : kind == "memory" ? "read"
                                       : "write");
      const bool onGpu = request->speed().backend() == "cuda" && i < gpus.size();
      one->set_device(onGpu ? gpus[i] : 0);
      one->set_work(onGpu ? speed * (100 + gpus[i]) : speed.load());
      one->set_seconds(1);
    }
    if (gpus.empty()) return grpc::Status::OK;
    reply->set_cuda_version(cuda);
    reply->set_nccl_version(nccl);
    return grpc::Status::OK;
  }

  // A rank that publishes its number, and takes a while once it knows all others.
  grpc::Status BenchTogether(grpc::ServerContext*, BenchStream* stream) override {
    node::v1::BenchTogetherRequest request;
    node::v1::BenchTogetherReply reply;
    if (!stream->Read(&request)) return grpc::Status::OK;
    const node::v1::BenchTogetherRequest::Start start = request.start();
    const std::string own = start.id() + std::to_string(start.rank());
    if (!refuses && !silent) {
      reply.mutable_published()->set_key(own);
      stream->Write(reply);
    }
    if (refuses || waitsInVain) {
      *reply.mutable_failed() =
          specs::toInfo(refuses ? makeError(Code::kResourceExhausted, "no memory")
                                : makeError(Code::kUnavailable, "joining rank 1"));
      stream->Write(reply);
    }
    if (refuses || waitsInVain || silent) {
      while (stream->Read(&request)) continue;
      return grpc::Status::OK;
    }
    std::set<std::string> known{own};
    while (static_cast<int>(known.size()) < start.world()) {
      if (!stream->Read(&request)) return grpc::Status::OK;
      known.insert(request.published().key());
    }
    auto* cost = reply.mutable_result()->add_collectives();
    cost->set_bytes(start.collectives().max_bytes());
    cost->set_seconds(0.01 * (1 + start.rank()));
    stream->Write(reply);
    while (stream->Read(&request)) continue;
    return grpc::Status::OK;
  }
  std::atomic<double> speed = 0;  // 0: none is told
  std::string cuda = "13.0", nccl = "2.27.3";
  std::atomic<bool> fails = false, hangs = false;
  std::atomic<bool> refuses = false, silent = false, waitsInVain = false;  // as a rank

  grpc::Status ListenForMeasurements(
      grpc::ServerContext* context, const node::v1::ListenForMeasurementsRequest*,
      grpc::ServerWriter<node::v1::ListenForMeasurementsReply>* writer) override {
    const int port = ports_.open();
    node::v1::ListenForMeasurementsReply reply;
    reply.set_port(port);
    if (!mute_) writer->Write(reply);
    const auto end = std::chrono::steady_clock::now() + listens_;
    while (!context->IsCancelled() && (mute_ || std::chrono::steady_clock::now() < end))
      std::this_thread::sleep_for(milliseconds(20));
    ports_.close(port);
    return grpc::Status::OK;
  }
  grpc::Status MeasurePeer(grpc::ServerContext*, const node::v1::MeasurePeerRequest* request,
                           node::v1::MeasurePeerReply* reply) override {
    if (!ports_.isOpen(request->port()))
      return {grpc::StatusCode::UNAVAILABLE, "Connection refused"};
    std::this_thread::sleep_for(kMeasures);
    reply->set_bytes_per_second(1e9);
    reply->set_round_trip(1e-4);
    return grpc::Status::OK;
  }

 private:
  Ports& ports_;
  const milliseconds listens_;
  const bool mute_;
  std::unique_ptr<grpc::Server> server_;
};

struct MadeUpNode final : NodeAccess {
  MadeUpNode(std::string name, const std::string& socket)
      : own(std::move(name)),
        channel(grpc::CreateChannel("unix:" + socket, grpc::InsecureChannelCredentials())) {}
  const std::string& name() const override { return own; }
  Result<NodeInventory> waitConnected(std::stop_token) override { return NodeInventory(); }
  Result<std::shared_ptr<grpc::Channel>> agent() override { return channel; }
  Result<std::shared_ptr<grpc::Channel>> supervisor(const std::string&) override { return channel; }
  Result<std::string> forward(const std::string& socketOnNode) override { return socketOnNode; }
  void unforward(const std::string&) override {}
  const std::string own;
  std::shared_ptr<grpc::Channel> channel;
};

// Nodes n1, n2, … on one host, so that their pairs are measured one after another.
class MadeUpCluster {
 public:
  explicit MadeUpCluster(int count, int mute = -1) {
    for (int i = 0; i < count; ++i) {
      const std::string name = "n" + std::to_string(i + 1);
      const std::string socket = folder_.filePath("s").toStdString() + name;
      // While one is waited for, the others go on listening.
      const milliseconds listens = mute >= 0 ? 100 * kListens : kListens;
      agents_.push_back(std::make_unique<MadeUpAgent>(socket, ports_, listens, i == mute));
      access_.push_back(std::make_unique<MadeUpNode>(name, socket));
      specs_.push_back(std::make_unique<spec::v1::NodeSpec>());
      specs_.back()->set_name(name);
      PreflightNode& node = nodes_.emplace_back();
      node.peer.spec = specs_.back().get();
      node.peer.access = access_.back().get();
      node.peer.inventory.bootId = "b";
      node.peer.inventory.network = "n";
      node.peer.inventory.agentSpeaks = specs::ownProtocols();
      node.peer.inventory.agentVersion = "5f1c";
      node.peer.inventory.kernel = "6.1";
    }
  }
  // Two, the second with half of its lanes.
  void addGpus(int node) {
    spec::v1::NodeSpec& spec = *specs_[static_cast<std::size_t>(node)];
    auto* device = spec.add_devices();
    device->set_kind("cuda");
    device->set_count(2);
    inventory(node).gpus = {"H200", "H200"};
    inventory(node).gpuDriver = "580.1";
    for (int i = 0; i < 2; ++i) {
      GpuLoad& gpu = nodes_[static_cast<std::size_t>(node)].load.gpus.emplace_back();
      gpu.index = i;
      gpu.pcieWidth = i == 1 ? 8 : 16;
      gpu.pcieWidthMax = 16;
    }
  }
  void forgetFeatures(int node) { inventory(node).agentSpeaks = {}; }
  NodeInventory& inventory(int node) {
    return nodes_[static_cast<std::size_t>(node)].peer.inventory;
  }
  Result<PreflightResult> run(const std::stop_token& stop = {}) {
    return runPreflight(nodes_, {folder_.path().toStdString()}, "lab", {}, stop);
  }
  Result<PreflightResult> bench(const std::string& node, const std::stop_token& stop = {}) {
    return benchNode(nodes_, node, {}, stop);
  }
  MadeUpAgent& agent(int index) { return *agents_[static_cast<std::size_t>(index)]; }

 private:
  QTemporaryDir folder_;
  Ports ports_;
  std::vector<std::unique_ptr<MadeUpAgent>> agents_;
  std::vector<std::unique_ptr<MadeUpNode>> access_;
  std::vector<std::unique_ptr<spec::v1::NodeSpec>> specs_;
  std::vector<PreflightNode> nodes_;
};

std::vector<PreflightValue> valuesOf(const PreflightResult& result, PreflightValue::Kind kind) {
  std::vector<PreflightValue> out;
  for (const PreflightValue& value : result.values)
    if (value.kind == kind) out.push_back(value);
  return out;
}

// "n1 6.1, n2 unknown": with "!" the nodes whose version is unlike the others.
std::string versionsOf(const PreflightResult& result, NodeVersion::Kind kind) {
  std::string out;
  for (const NodeVersion& one : result.versions) {
    if (one.kind != kind) continue;
    out += (out.empty() ? "" : ", ") + one.node + " ";
    if (one.grade == NodeVersion::Grade::kDifferent) out += "!";
    out += one.version.empty() ? "unknown" : one.version;
  }
  return out;
}

std::size_t linksOf(const PreflightResult& result) {
  return static_cast<std::size_t>(std::count_if(
      result.values.begin(), result.values.end(),
      [](const PreflightValue& value) { return value.kind == PreflightValue::Kind::kBandwidth; }));
}

}  // namespace

class PreflightCallsTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  // All pairs take longer than a node listens; those of a round a third of that.
  void listenersLiveForTheirPairs() {
    MadeUpCluster cluster(6);
    QElapsedTimer clock;
    clock.start();
    const auto result = cluster.run();
    QVERIFY(result.ok());
    QVERIFY(clock.elapsed() > kListens.count());
    QVERIFY2(result->errors.empty(),
             result->errors.empty() ? "" : result->errors.front().text().c_str());
    QCOMPARE(linksOf(*result), std::size_t{30});
  }

  // What each rank publishes is relayed to all others.
  void allNodesReduceTogether() {
    MadeUpCluster cluster(4);
    const auto result = cluster.run();
    QVERIFY(result.ok());
    QVERIFY2(result->errors.empty(),
             result->errors.empty() ? "" : result->errors.front().text().c_str());
    const auto values = valuesOf(*result, PreflightValue::Kind::kAllReduce);
    QCOMPARE(values.size(), std::size_t{1});
    QCOMPARE(values[0].node, std::string("n1,n2,n3,n4"));
    // 1.5 times the array, in the ranks' mean time.
    QVERIFY(std::abs(values[0].value / (1.5 * (8 << 20) / 0.025) - 1) < 1e-6);
  }

  // The others do not wait for it.
  void aNodeThatCannotReduceIsNamed() {
    MadeUpCluster cluster(3);
    cluster.agent(1).refuses = true;
    QElapsedTimer clock;
    clock.start();
    const auto result = cluster.run();
    QVERIFY(result.ok());
    QVERIFY2(clock.elapsed() < 30'000, qPrintable(QString::number(clock.elapsed())));
    QCOMPARE(result->errors.size(), std::size_t{1});
    QCOMPARE(result->errors[0].node, std::string("n2"));
    QCOMPARE(result->errors[0].what.text(), std::string("no memory"));
    QVERIFY(valuesOf(*result, PreflightValue::Kind::kAllReduce).empty());
    QCOMPARE(linksOf(*result), std::size_t{6});
  }

  // Not the one that waited for it.
  void aRankThatSaysNothingIsNamed() {
    MadeUpCluster cluster(3);
    cluster.agent(0).waitsInVain = true;
    cluster.agent(1).silent = true;
    const auto result = cluster.run();
    QVERIFY(result.ok());
    QCOMPARE(result->errors.size(), std::size_t{1});
    QCOMPARE(result->errors[0].node, std::string("n2"));
    QCOMPARE(result->errors[0].what.text(), std::string("all-reduce could not be measured"));
  }

  void anAgentOfAnEarlierVersionIsNamed() {
    MadeUpCluster cluster(2);
    cluster.forgetFeatures(1);
    cluster.addGpus(1);
    const auto result = cluster.run();
    QVERIFY(result.ok());
    QCOMPARE(result->errors.size(), std::size_t{1});
    QCOMPARE(result->errors[0].node, std::string("n2"));
    QCOMPARE(linksOf(*result), std::size_t{2});
    QCOMPARE(versionsOf(*result, NodeVersion::Kind::kNccl), std::string("n2 unknown"));
  }

  // The nodes' own, and those that benches of their GPUs tell.
  void versionsOfNodesAreCompared() {
    using Of = NodeVersion::Kind;
    MadeUpCluster cluster(4);
    for (int i = 0; i < 4; ++i) cluster.agent(i).speed = 1e9;
    for (const int node : {1, 2, 3}) cluster.addGpus(node);
    cluster.inventory(0).gpus = {"T4"};  // that no rank is on
    cluster.inventory(2).kernel = "6.6";
    cluster.inventory(3).agentVersion = "";
    cluster.agent(3).cuda = "12.8";
    const auto result = cluster.run();
    QVERIFY(result.ok());
    QVERIFY2(result->errors.empty(),
             result->errors.empty() ? "" : result->errors.front().text().c_str());
    QCOMPARE(result->nodes, (std::vector<std::string>{"n1", "n2", "n3", "n4"}));
    QCOMPARE(versionsOf(*result, Of::kAgent), std::string("n1 5f1c, n2 5f1c, n3 5f1c, n4 unknown"));
    QCOMPARE(versionsOf(*result, Of::kKernel), std::string("n1 6.1, n2 6.1, n3 !6.6, n4 6.1"));
    QCOMPARE(versionsOf(*result, Of::kGpuDriver),
             std::string("n1 unknown, n2 580.1, n3 580.1, n4 580.1"));
    QCOMPARE(versionsOf(*result, Of::kCuda), std::string("n2 13.0, n3 13.0, n4 !12.8"));
    QCOMPARE(versionsOf(*result, Of::kNccl), std::string("n2 2.27.3, n3 2.27.3, n4 2.27.3"));
  }

  // All of a node at once; what its cores do is measured as well.
  void eachGpuIsMeasured() {
    MadeUpCluster cluster(2);
    for (int i = 0; i < 2; ++i) cluster.agent(i).speed = 1e9;
    cluster.addGpus(1);
    const auto result = cluster.run();
    QVERIFY(result.ok());
    QVERIFY2(result->errors.empty(),
             result->errors.empty() ? "" : result->errors.front().text().c_str());
    using Kind = PreflightValue::Kind;
    for (const Kind kind : {Kind::kGpuMatmul, Kind::kGpuMemory, Kind::kGpuLanes}) {
      const auto values = valuesOf(*result, kind);
      QCOMPARE(values.size(), std::size_t{2});
      for (int gpu = 0; gpu < 2; ++gpu) {
        const PreflightValue& value = values[static_cast<std::size_t>(gpu)];
        QCOMPARE(value.node, std::string("n2"));
        QCOMPARE(value.gpu, gpu);
        QCOMPARE(value.value, kind == Kind::kGpuLanes ? 1.0 / (1 + gpu) : 1e9 * (100 + gpu));
      }
    }
    QCOMPARE(valuesOf(*result, Kind::kMatmul).size(), std::size_t{2});
    QCOMPARE(result->weak(), 1);
    QCOMPARE(weakText(valuesOf(*result, Kind::kGpuLanes)[1]).text(),
             std::string("GPU 1 of node n2 uses 50 % of its PCIe lanes"));
  }

  void aNodeThatNeverAnswersIsLeftOut() {
    MadeUpCluster cluster(3, 1);
    QElapsedTimer clock;
    clock.start();
    const auto result = cluster.run();
    QVERIFY(result.ok());
    QVERIFY2(clock.elapsed() < 60'000, qPrintable(QString::number(clock.elapsed())));
    std::string said;
    for (const Error& error : result->errors) said += error.text() + "\n";
    QVERIFY2(result->errors.size() == 1, said.c_str());  // told once
    QCOMPARE(result->errors[0].node, std::string("n2"));
    QCOMPARE(linksOf(*result), std::size_t{4});  // all but those to it
    QVERIFY(valuesOf(*result, PreflightValue::Kind::kAllReduce).empty());
  }

  void itIsCancelledWhileANodeIsSilent() {
    MadeUpCluster cluster(3, 1);
    std::stop_source stop;
    QElapsedTimer clock;
    clock.start();
    const std::jthread later([&] {
      std::this_thread::sleep_for(milliseconds(500));
      stop.request_stop();
    });
    const auto result = cluster.run(stop.get_token());
    QVERIFY(!result.ok());
    QCOMPARE(result.error().code, Code::kCancelled);
    QVERIFY2(clock.elapsed() < 8000, qPrintable(QString::number(clock.elapsed())));
  }

  void aNodeIsMeasuredBesideItsPeers() {
    MadeUpCluster cluster(3);
    for (int i = 0; i < 3; ++i) cluster.agent(i).speed = i == 1 ? 1e9 : 4e9;
    const auto result = cluster.bench("n2");
    QVERIFY(result.ok() && result->errors.empty());
    QCOMPARE(result->values.size(), std::size_t{9});  // no links
    QCOMPARE(result->nodes, (std::vector<std::string>{"n2", "n1", "n3"}));
    QVERIFY(result->versions.empty());
    for (std::size_t i = 0; i < 9; ++i) {
      const PreflightValue& value = result->values[i];
      QCOMPARE(value.node == "n2", i < 3);  // its own come first
      QCOMPARE(value.usual, 4e9);
      QVERIFY(!value.earlier && (value.grade == PreflightValue::Grade::kWeak) == (i < 3));
    }
    QCOMPARE(weakText(result->values[0]).text(),
             std::string("node n2 computes 1 GFLOP/s, usually 4"));
  }

  // Of two the slower is weak; one alone is like nothing.
  void aNodeHasOnePeerOrNone() {
    MadeUpCluster two(2), one(1);
    two.agent(0).speed = 4e9;
    two.agent(1).speed = 1e9;
    one.agent(0).speed = 1e9;
    const auto faster = two.bench("n1"), alone = one.bench("n1");
    QVERIFY(faster.ok() && alone.ok());
    QCOMPARE(faster->weak(), 3);
    QVERIFY(faster->values[0].grade == PreflightValue::Grade::kGood);
    QVERIFY(faster->values[3].node == "n2" && faster->values[2].node == "n1");
    for (const PreflightValue& value : alone->values)
      QVERIFY(value.grade == PreflightValue::Grade::kUngraded);
  }

  void aNodeThatCannotBeMeasuredSaysWhy() {
    MadeUpCluster cluster(2);
    for (int i = 0; i < 2; ++i) cluster.agent(i).speed = 1e9;
    QCOMPARE(cluster.bench("n3").error().code, Code::kUnavailable);
    cluster.agent(1).fails = true;
    const auto others = cluster.bench("n1");
    QVERIFY(others.ok());
    QCOMPARE(others->errors.size(), std::size_t{1});  // told once
    const auto it = cluster.bench("n2");
    QVERIFY(!it.ok());
    QCOMPARE(it.error().node, std::string("n2"));
    QCOMPARE(it.error().what.text(), std::string("the node could not be measured"));
  }

  void benchesAreCancelled() {
    MadeUpCluster cluster(2);
    cluster.agent(0).hangs = true;
    std::stop_source stop;
    const std::jthread later([&] {
      std::this_thread::sleep_for(milliseconds(300));
      stop.request_stop();
    });
    QElapsedTimer clock;
    clock.start();
    const auto result = cluster.bench("n1", stop.get_token());
    QVERIFY(!result.ok() && result.error().code == Code::kCancelled);
    QVERIFY2(clock.elapsed() < 8000, qPrintable(QString::number(clock.elapsed())));
  }
};

QTEST_GUILESS_MAIN(PreflightCallsTest)
#include "preflight_calls_test.moc"
