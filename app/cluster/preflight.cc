#include "app/cluster/preflight.h"

#include <grpcpp/channel.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <set>
#include <thread>
#include <utility>

#include "app/cluster/all_reduce_bench.h"
#include "app/cluster/listening_call.h"
#include "app/cluster/node_access.h"
#include "app/core/rpc.h"
#include "engine/specs/protocol.h"
#include "engine/specs/specs.h"
#include "lockstep/node/v1/node.grpc.pb.h"
#include "lockstep/spec/v1/spec.pb.h"

namespace lockstep::app {
namespace {

using Kind = PreflightValue::Kind;
using Grade = PreflightValue::Grade;

constexpr std::chrono::minutes kListenLimit{10};
constexpr std::int64_t kMatmulSide = 1024, kMemoryBytes = 64 << 20, kDiskBytes = 64 << 20;
constexpr std::int64_t kGpuMatmulSide = 4096, kGpuMemoryBytes = 256 << 20;
constexpr const char* kNotMeasured = "the node could not be measured";
constexpr Kind kSpeeds[] = {Kind::kMatmul, Kind::kMemory, Kind::kDiskWrite};
constexpr Kind kGpuSpeeds[] = {Kind::kGpuMatmul, Kind::kGpuMemory};

// Whether it can be one: it is kept in a file, which has no other numbers.
bool isMeasure(double value) { return std::isfinite(value) && value >= 0; }

// The GPUs that the cluster has of a node.
std::vector<int> gpusOf(const PreflightNode& node) {
  std::vector<int> out;
  for (const specs::RankDevice& device : specs::rankDevices(*node.peer.spec, {}))
    if (device.kind == "cuda" && std::ranges::count(out, device.number) == 0)
      out.push_back(device.number);
  return out;
}

// What the agent runs; the size as that of SpeedBench.
node::v1::SpeedBench speedBench(Kind kind) {
  node::v1::SpeedBench out;
  const bool products = kind == Kind::kMatmul || kind == Kind::kGpuMatmul;
  out.set_kind(products ? "gemm" : kind == Kind::kDiskWrite ? "disk" : "memory");
  if (products) out.add_precisions(kind == Kind::kMatmul ? "fp32" : "tf32");
  out.set_min(kind == Kind::kMatmul      ? kMatmulSide
              : kind == Kind::kGpuMatmul ? kGpuMatmulSide
              : kind == Kind::kMemory    ? kMemoryBytes
              : kind == Kind::kGpuMemory ? kGpuMemoryBytes
                                         : kDiskBytes);
  out.set_max(out.min());
  return out;
}

class Preflight {
 public:
  Preflight(const std::vector<PreflightNode>& nodes, const PreflightOptions& options,
            const std::stop_token& stop)
      : nodes_(nodes),
        options_(options),
        stop_(stop),
        total_(static_cast<int>(std::size(kSpeeds) * nodes.size())) {
    for (const PreflightNode& node : nodes) result_.nodes.push_back(node.name());
  }

  Result<PreflightResult> run() {
    for (const PreflightNode& node : nodes_)
      if (!node.peer.joinsFirstOnly) total_ += static_cast<int>(2 * others_++);
    if (others_ > 1) ++total_;  // all-reduce
    for (const PreflightNode& node : nodes_) {
      if (!gpusOf(node).empty()) total_ += static_cast<int>(std::size(kGpuSpeeds));
      addKnown(node);
    }
    measureSpeeds(true);
    findAddresses();
    if (measurePairs()) measureAll();
    addVersions();
    return finished();
  }
  Result<PreflightResult> runOnNodes() {
    measureSpeeds(false);
    return finished();
  }

 private:
  // Nodes on one host share its cores.
  void measureSpeeds(bool withGpus) {
    std::map<std::string, std::vector<std::size_t>> hosts;
    for (std::size_t i = 0; i < nodes_.size(); ++i)
      hosts[nodes_[i].peer.inventory.bootId].push_back(i);
    std::vector<std::function<void()>> work;
    for (const auto& [host, nodes] : hosts)
      work.emplace_back([this, &nodes, withGpus] {
        for (const std::size_t node : nodes) {
          for (const Kind kind : kSpeeds) measureSpeed(nodes_[node], kind);
          if (const auto gpus = gpusOf(nodes_[node]); withGpus && !gpus.empty())
            for (const Kind kind : kGpuSpeeds) measureSpeed(nodes_[node], kind, gpus);
        }
      });
    concurrently(work);
  }
  Result<PreflightResult> finished() {
    if (stop_.stop_requested()) return makeError(Code::kCancelled, "the measurement was cancelled");
    std::stable_sort(result_.values.begin(), result_.values.end(),
                     [](const auto& a, const auto& b) { return a.kind < b.kind; });
    return std::move(result_);
  }

  void add(Kind kind, const std::string& node, double value, int gpu = -1) {
    const std::lock_guard lock(mutex_);
    result_.values.push_back({kind, node, "", value});
    result_.values.back().gpu = gpu;
  }
  void addError(Error error, const std::string& node) {
    if (stop_.stop_requested()) return;
    if (error.node.empty()) error.node = node;
    const std::lock_guard lock(mutex_);
    const auto saysTheSame = [&](const Error& one) { return one.text() == error.text(); };
    if (!std::ranges::any_of(result_.errors, saysTheSame))
      result_.errors.push_back(std::move(error));
  }
  void take(PreflightResult part) {
    for (Error& error : part.errors) addError(std::move(error), {});
    const std::lock_guard lock(mutex_);
    std::ranges::move(part.values, std::back_inserter(result_.values));
  }
  void tell(const std::string& what) {
    const std::lock_guard lock(mutex_);
    if (options_.progress) options_.progress(++done_, total_, what);
  }

  void findAddresses() {
    if (others_ < 2 || stop_.stop_requested()) return;
    std::vector<PeerNode> peers;
    for (const PreflightNode& node : nodes_) peers.push_back(node.peer);
    auto found = provePeerAddresses(peers, stop_);
    if (!found.ok()) return addError(found.error(), "");
    addresses_ = std::move(*found);
    for (std::size_t i = 0; i < nodes_.size(); ++i)
      if (!addresses_[i].empty()) paired_.push_back(i);
  }

  void addKnown(const PreflightNode& node) {
    const NodeInventory& has = node.peer.inventory;
    if (has.diskFreeBytes > 0)
      add(Kind::kDiskFree, node.name(), static_cast<double>(has.diskFreeBytes));
    add(Kind::kClockSkew, node.name(), std::abs(static_cast<double>(has.clockOffset) * 1e-9));
    for (const GpuLoad& gpu : node.load.gpus)
      if (gpu.pcieWidth && gpu.pcieWidthMax.value_or(0) > 0)
        add(Kind::kGpuLanes, node.name(),
            std::clamp(static_cast<double>(*gpu.pcieWidth) / *gpu.pcieWidthMax, 0.0, 1.0),
            gpu.index);
  }

  void addVersions() {
    using Of = NodeVersion::Kind;
    const auto add = [this](Of kind, const PreflightNode& node, const std::string& version) {
      result_.versions.push_back({kind, node.name(), version});
    };
    for (const PreflightNode& node : nodes_) {
      const NodeInventory& has = node.peer.inventory;
      add(Of::kAgent, node, has.agentVersion);
      add(Of::kKernel, node, has.kernel);
      const bool benched = !gpusOf(node).empty();
      if (benched || !has.gpus.empty()) add(Of::kGpuDriver, node, has.gpuDriver);
      if (!benched) continue;
      const node::v1::BenchReply& told = gpuBenches_[node.name()];
      add(Of::kCuda, node, told.cuda_version());
      add(Of::kNccl, node, told.nccl_version());
    }
    std::ranges::stable_sort(result_.versions, {}, &NodeVersion::kind);
    gradeVersions(result_.versions);
  }

  static void concurrently(const std::vector<std::function<void()>>& work) {
    std::vector<std::jthread> threads;
    for (const auto& one : work) threads.emplace_back(one);
  }

  // `gpus`: none where the node's cores or disk are measured.
  Status bench(const PreflightNode& node, Kind kind, const std::vector<int>& gpus) {
    if (!gpus.empty())
      LOCKSTEP_TRY(specs::checkFeature("the agent", node.peer.inventory.agentSpeaks,
                                       specs::kClusterBenchmarks));
    node::v1::BenchRequest request;
    request.set_ranks(gpus.empty() ? 1 : static_cast<int>(gpus.size()));
    request.set_threads(gpus.empty() ? std::max(node.peer.inventory.cores, 1) : 1);
    request.set_seconds(options_.seconds);
    *request.mutable_speed() = speedBench(kind);
    if (!gpus.empty()) {
      request.mutable_speed()->set_backend("cuda");
      request.mutable_speed()->mutable_devices()->Assign(gpus.begin(), gpus.end());
    }
    LOCKSTEP_ASSIGN(const auto channel, node.peer.access->agent());
    grpc::ClientContext context;
    setLimit(context, std::chrono::seconds(60));
    const CancelOnStop cancel(context, stop_);
    node::v1::BenchReply reply;
    LOCKSTEP_TRY(rpcStatus(node::v1::Agent::NewStub(channel)->Bench(&context, request, &reply),
                           kNotMeasured, node.name()));
    take(speedsOf(reply, kind, node.name()));
    if (!gpus.empty()) {
      const std::lock_guard lock(mutex_);
      gpuBenches_[node.name()] = std::move(reply);
    }
    return {};
  }
  void measureSpeed(const PreflightNode& node, Kind kind, const std::vector<int>& gpus = {}) {
    if (stop_.stop_requested()) return;
    if (Status done = bench(node, kind, gpus); !done.ok()) addError(done.error(), node.name());
    tell(node.name());
  }

  using Listening = ListeningCall<node::v1::ListenForMeasurementsReply>;

  // Starts those that have not failed before.
  void listen(std::vector<Listening>& listening, std::vector<char>& fails) {
    std::vector<std::function<void()>> work;
    for (std::size_t i = 0; i < listening.size(); ++i)
      work.emplace_back([this, i, &listening, &fails] {
        if (fails[i] != 0 || stop_.stop_requested()) return;
        const PreflightNode& node = nodes_[paired_[i]];
        node::v1::ListenForMeasurementsRequest request;
        request.set_address(addresses_[paired_[i]]);
        const Status started = listening[i].start(
            *node.peer.access, kListenLimit, message("the node cannot listen for measurements"),
            stop_, [&](node::v1::Agent::Stub& stub, grpc::ClientContext& context) {
              return stub.ListenForMeasurements(&context, request);
            });
        if (started.ok()) return;
        fails[i] = 1;
        addError(started.error(), node.name());
      });
    concurrently(work);
  }

  // In rounds: in each, a node sends to one other and receives from one other at most, and all
  // rounds together have each pair once. Returns whether there are pairs, and all nodes listened.
  bool measurePairs() {
    const std::size_t count = paired_.size();
    if (count < 2) return false;
    std::vector<char> fails(count);  // to listen
    std::map<std::string, int> hosts;
    for (const std::size_t node : paired_) ++hosts[nodes_[node].peer.inventory.bootId];
    const bool apart = hosts.size() == count;
    for (std::size_t distance = 1; distance < count; ++distance) {
      std::vector<Listening> listening(count);  // for each distance anew: it has a limit
      listen(listening, fails);
      for (const std::size_t part : {0, 1, 2}) {  // of a ring, no two that share a node
        std::vector<std::function<void()>> work;
        for (std::size_t from = 0; from < count; ++from) {
          const std::size_t to = (from + distance) % count;
          if (partOf(from, distance, count) != part) continue;
          const bool both = fails[to] == 0;
          work.emplace_back([this, from, to, both, &listening] {
            measurePair(paired_[from], paired_[to], both ? &listening[to].reply() : nullptr);
          });
        }
        if (apart)
          concurrently(work);
        else
          for (const auto& one : work) one();
      }
    }
    return std::ranges::count(fails, 0) == static_cast<std::ptrdiff_t>(count);
  }
  // Colours the cycle that steps of this distance form, so that neighbours differ.
  static std::size_t partOf(std::size_t from, std::size_t distance, std::size_t count) {
    const std::size_t cycles = std::gcd(distance, count), length = count / cycles;
    std::size_t at = 0;
    for (std::size_t node = from % cycles; node != from; node = (node + distance) % count) ++at;
    return at + 1 == length && length % 2 == 1 ? 2 : at % 2;
  }

  Status pair(const PreflightNode& from, std::size_t receiver,
              const node::v1::ListenForMeasurementsReply& at) {
    const std::string& to = nodes_[receiver].name();
    node::v1::MeasurePeerRequest request;
    request.set_address(addresses_[receiver]);
    request.set_port(at.port());
    request.set_key(at.key());
    request.set_seconds(options_.seconds);
    LOCKSTEP_ASSIGN(const auto channel, from.peer.access->agent());
    grpc::ClientContext context;
    setLimit(context, std::chrono::seconds(30));
    const CancelOnStop cancel(context, stop_);
    node::v1::MeasurePeerReply reply;
    LOCKSTEP_TRY(
        rpcStatus(node::v1::Agent::NewStub(channel)->MeasurePeer(&context, request, &reply),
                  message("the link to {} could not be measured", to), from.name()));
    take(linkOf(reply, from.name(), to));
    return {};
  }
  void measurePair(std::size_t from, std::size_t to,
                   const node::v1::ListenForMeasurementsReply* at) {
    if (stop_.stop_requested()) return;
    const PreflightNode& sender = nodes_[from];
    if (at != nullptr)
      if (Status done = pair(sender, to, *at); !done.ok()) addError(done.error(), sender.name());
    tell(sender.name() + " → " + nodes_[to].name());
  }

  void measureAll() {
    if (stop_.stop_requested()) return;
    std::vector<BenchedRank> ranks;
    std::set<std::string> names;
    for (const std::size_t node : paired_) {
      names.insert(nodes_[node].name());
      ranks.push_back({nodes_[node].peer.access, addresses_[node]});
      if (Status able = specs::checkFeature("the agent", nodes_[node].peer.inventory.agentSpeaks,
                                            specs::kClusterBenchmarks);
          !able.ok())
        return addError(able.error(), nodes_[node].name());
    }
    if (const auto rate = measureAllReduce(ranks, options_.seconds, stop_); rate.ok())
      add(Kind::kAllReduce, fmt::format("{}", fmt::join(names, ",")), *rate);
    else
      addError(rate.error(), {});
    tell("all-reduce");
  }

  const std::vector<PreflightNode>& nodes_;
  const PreflightOptions& options_;
  const std::stop_token& stop_;
  std::size_t others_ = 0;  // nodes that are reached by others
  std::vector<std::string> addresses_;
  std::vector<std::size_t> paired_;  // nodes with an address
  std::mutex mutex_;
  PreflightResult result_;
  std::map<std::string, node::v1::BenchReply> gpuBenches_;  // the latest of each node
  int done_ = 0, total_;
};

bool isGpus(Kind kind) { return kind == Kind::kGpuMatmul || kind == Kind::kGpuMemory; }

}  // namespace

PreflightResult speedsOf(const node::v1::BenchReply& reply, Kind kind, const std::string& node) {
  const bool ofMemory = kind == Kind::kMemory || kind == Kind::kGpuMemory;
  PreflightResult out;
  for (const auto& one : reply.speeds()) {
    if (ofMemory && one.name() != "read") continue;
    if (!one.why_not().empty()) {
      out.errors.push_back(makeError(Code::kFailedPrecondition, "{}", one.why_not()));
      out.errors.back().node = node;
    }
    if (one.seconds() == 0) continue;
    const double speed = one.work() / one.seconds();
    if (!(one.seconds() > 0) || !isMeasure(speed)) {
      out.errors.push_back(replyError(kNotMeasured, node));
      continue;
    }
    out.values.push_back({kind, node, "", speed});
    if (isGpus(kind)) out.values.back().gpu = one.device();
  }
  return out;
}

PreflightResult linkOf(const node::v1::MeasurePeerReply& reply, const std::string& from,
                       const std::string& to) {
  PreflightResult out;
  if (isMeasure(reply.bytes_per_second()) && isMeasure(reply.round_trip()))
    out.values = {{Kind::kBandwidth, from, to, reply.bytes_per_second()},
                  {Kind::kRoundTrip, from, to, reply.round_trip()}};
  else
    out.errors = {replyError(message("the link to {} could not be measured", to), from)};
  return out;
}

const std::string& PreflightNode::name() const { return peer.spec->name(); }

std::vector<PreflightNode> preflightNodes(const ClusterSession& session) {
  std::vector<PreflightNode> out;
  for (int i = 0; i < session.size(); ++i) {
    const NodeStatus& node = session.status(i);
    if (node.phase != NodeState::CONNECTED) continue;
    const bool evaluates =
        std::find(node.roles.begin(), node.roles.end(), "evaluator") != node.roles.end();
    out.push_back(
        {{&session.cluster()->nodes(i), &session.access(i), node.inventory, evaluates}, node.load});
  }
  // The first is joined by the others.
  std::stable_partition(out.begin(), out.end(),
                        [](const PreflightNode& node) { return !node.peer.joinsFirstOnly; });
  return out;
}

Result<PreflightResult> runPreflight(const std::vector<PreflightNode>& nodes, const Home& home,
                                     const std::string& cluster, const PreflightOptions& options,
                                     const std::stop_token& stop) {
  LOCKSTEP_ASSIGN(PreflightResult result, Preflight(nodes, options, stop).run());
  const auto earlier = readPreflights(home, cluster);
  grade(result, earlier.ok() ? *earlier : std::vector<PreflightResult>());
  const Status kept = earlier.ok() ? addPreflight(home, cluster, result) : Status(earlier.error());
  if (!kept.ok()) result.errors.push_back(kept.error());
  return result;
}

Result<PreflightResult> measureNodes(const std::vector<PreflightNode>& nodes,
                                     const PreflightOptions& options, const std::stop_token& stop) {
  LOCKSTEP_ASSIGN(PreflightResult result, Preflight(nodes, options, stop).runOnNodes());
  grade(result, {}, 1);
  return result;
}

}  // namespace lockstep::app
