#include "app/cluster/preflight.h"

#include <grpcpp/channel.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <numeric>
#include <thread>
#include <tuple>
#include <utility>

#include "app/cluster/listening_call.h"
#include "app/cluster/node_access.h"
#include "app/core/rpc.h"
#include "engine/base/file.h"
#include "engine/base/hash.h"
#include "engine/base/statistics.h"
#include "lockstep/node/v1/node.grpc.pb.h"
#include "lockstep/spec/v1/spec.pb.h"

namespace lockstep::app {
namespace {

using Kind = PreflightValue::Kind;
using Grade = PreflightValue::Grade;

constexpr std::array<std::string_view, 8> kNames{"matmul",    "memory",     "disk-write",
                                                 "disk-free", "clock-skew", "gpu-lanes",
                                                 "bandwidth", "round-trip"};
constexpr std::size_t kKept = 20;    // earlier results
constexpr double kWeak = 0.7;        // of the usual value
constexpr double kWeakDisk = 0.4;    // disks vary more
constexpr double kLongTrip = 50e-6;  // seconds above the usual round trip
constexpr double kSkewed = 1;        // seconds
constexpr double kLittleDisk = 5e9;  // bytes
constexpr std::chrono::minutes kListenLimit{10};
constexpr std::int64_t kMatmulSide = 1024, kMemoryBytes = 64 << 20, kDiskBytes = 64 << 20;
constexpr Kind kSpeeds[] = {Kind::kMatmul, Kind::kMemory, Kind::kDiskWrite};

bool isMoreBetter(Kind kind) { return kind != Kind::kRoundTrip && kind != Kind::kClockSkew; }
bool isMeasured(Kind kind) { return std::ranges::count(kSpeeds, kind) > 0 || isPair(kind); }

class Preflight {
 public:
  Preflight(const std::vector<PreflightNode>& nodes, const PreflightOptions& options,
            const std::stop_token& stop)
      : nodes_(nodes),
        options_(options),
        stop_(stop),
        total_(static_cast<int>(std::size(kSpeeds) * nodes.size())) {}

  Result<PreflightResult> run() {
    for (const PreflightNode& node : nodes_)
      if (!node.peer.joinsFirstOnly) total_ += static_cast<int>(2 * others_++);
    for (const PreflightNode& node : nodes_) addKnown(node);
    measureSpeeds();
    findAddresses();
    measurePairs();
    return finished();
  }
  Result<PreflightResult> runOnNodes() {
    measureSpeeds();
    return finished();
  }

 private:
  // Nodes on one host share its cores.
  void measureSpeeds() {
    std::map<std::string, std::vector<std::size_t>> hosts;
    for (std::size_t i = 0; i < nodes_.size(); ++i)
      hosts[nodes_[i].peer.inventory.bootId].push_back(i);
    std::vector<std::function<void()>> work;
    for (const auto& [host, nodes] : hosts)
      work.emplace_back([this, &nodes] {
        for (const std::size_t node : nodes)
          for (const Kind kind : kSpeeds) measureSpeed(nodes_[node], kind);
      });
    concurrently(work);
  }
  Result<PreflightResult> finished() {
    if (stop_.stop_requested()) return makeError(Code::kCancelled, "the measurement was cancelled");
    std::stable_sort(result_.values.begin(), result_.values.end(),
                     [](const auto& a, const auto& b) { return a.kind < b.kind; });
    return std::move(result_);
  }

  void add(Kind kind, const std::string& node, double value, const std::string& peer = {}) {
    const std::lock_guard lock(mutex_);
    result_.values.push_back({kind, node, peer, value});
  }
  void addError(Error error, const std::string& node) {
    if (stop_.stop_requested()) return;
    if (error.node.empty()) error.node = node;
    const std::lock_guard lock(mutex_);
    result_.errors.push_back(std::move(error));
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
    double narrowest = 1;
    bool known = false;
    for (const GpuLoad& gpu : node.load.gpus) {
      if (!gpu.pcieWidth || gpu.pcieWidthMax.value_or(0) <= 0) continue;
      narrowest = std::min(narrowest, static_cast<double>(*gpu.pcieWidth) / *gpu.pcieWidthMax);
      known = true;
    }
    if (known) add(Kind::kGpuLanes, node.name(), narrowest);
  }

  static void concurrently(const std::vector<std::function<void()>>& work) {
    std::vector<std::jthread> threads;
    for (const auto& one : work) threads.emplace_back(one);
  }

  Status bench(const PreflightNode& node, Kind kind) {
    node::v1::BenchRequest request;
    request.set_ranks(1);
    request.set_threads(std::max(node.peer.inventory.cores, 1));
    request.set_seconds(options_.seconds);
    node::v1::SpeedBench& speed = *request.mutable_speed();
    speed.set_kind(kind == Kind::kMatmul ? "gemm" : kind == Kind::kMemory ? "memory" : "disk");
    if (kind == Kind::kMatmul) speed.add_precisions("fp32");
    speed.set_min(kind == Kind::kMatmul   ? kMatmulSide
                  : kind == Kind::kMemory ? kMemoryBytes
                                          : kDiskBytes);
    speed.set_max(speed.min());
    LOCKSTEP_ASSIGN(const auto channel, node.peer.access->agent());
    grpc::ClientContext context;
    setLimit(context, std::chrono::seconds(60));
    const CancelOnStop cancel(context, stop_);
    node::v1::BenchReply reply;
    LOCKSTEP_TRY(rpcStatus(node::v1::Agent::NewStub(channel)->Bench(&context, request, &reply),
                           "the node could not be measured", node.name()));
    for (const auto& one : reply.speeds()) {
      if (kind == Kind::kMemory && one.name() != "read") continue;
      if (!one.why_not().empty())
        addError(makeError(Code::kFailedPrecondition, "{}", one.why_not()), node.name());
      if (one.seconds() > 0) add(kind, node.name(), one.work() / one.seconds());
    }
    return {};
  }
  void measureSpeed(const PreflightNode& node, Kind kind) {
    if (stop_.stop_requested()) return;
    if (Status done = bench(node, kind); !done.ok()) addError(done.error(), node.name());
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
  // rounds together have each pair once.
  void measurePairs() {
    const std::size_t count = paired_.size();
    if (count < 2) return;
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
    add(Kind::kBandwidth, from.name(), reply.bytes_per_second(), to);
    add(Kind::kRoundTrip, from.name(), reply.round_trip(), to);
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

  const std::vector<PreflightNode>& nodes_;
  const PreflightOptions& options_;
  const std::stop_token& stop_;
  std::size_t others_ = 0;  // nodes that are reached by others
  std::vector<std::string> addresses_;
  std::vector<std::size_t> paired_;  // nodes with an address
  std::mutex mutex_;
  PreflightResult result_;
  int done_ = 0, total_;
};

// Names may differ in what a file's name cannot have: their hash tells them apart.
std::string fileOf(const Home& home, const std::string& cluster) {
  constexpr std::size_t kMostRead = 60, kHash = 12;
  std::string name = cluster.substr(0, kMostRead);
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '-';
  return fmt::format("{}/preflight/{}-{}.json", home.root, name.empty() ? "cluster" : name,
                     sha256Hex(cluster).substr(0, kHash));
}

nlohmann::json toJson(const PreflightResult& result) {
  nlohmann::json values = nlohmann::json::array();
  for (const PreflightValue& one : result.values)
    if (isMeasured(one.kind))
      values.push_back({{"kind", std::string(kindName(one.kind))},
                        {"node", one.node},
                        {"peer", one.peer},
                        {"value", one.value}});
  return values;
}

bool fromJson(const nlohmann::json& json, PreflightResult& out) {
  if (!json.is_array()) return false;
  for (const auto& one : json) {
    if (!one.is_object() || !one.contains("kind") || !one["kind"].is_string() ||
        !one.contains("node") || !one["node"].is_string() || !one.contains("peer") ||
        !one["peer"].is_string() || !one.contains("value") || !one["value"].is_number())
      return false;
    const auto kind = std::find(kNames.begin(), kNames.end(), one["kind"].get<std::string>());
    if (kind == kNames.end()) continue;  // of a later version
    out.values.push_back({static_cast<Kind>(kind - kNames.begin()), one["node"], one["peer"],
                          one["value"].get<double>()});
  }
  return true;
}

}  // namespace

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

std::string_view kindName(Kind kind) { return kNames[static_cast<std::size_t>(kind)]; }
bool isPair(Kind kind) { return kind == Kind::kBandwidth || kind == Kind::kRoundTrip; }

int PreflightResult::weak() const {
  return static_cast<int>(std::count_if(
      values.begin(), values.end(), [](const auto& value) { return value.grade == Grade::kWeak; }));
}

void grade(PreflightResult& result, const std::vector<PreflightResult>& earlier,
           std::size_t leastPeers) {
  using Key = std::tuple<Kind, std::string, std::string>;
  std::map<Key, std::vector<double>> before;
  for (const PreflightResult& one : earlier)
    for (const PreflightValue& value : one.values)
      before[{value.kind, value.node, value.peer}].push_back(value.value);
  result.earlier = earlier.size();
  for (PreflightValue& value : result.values) {
    value.grade = Grade::kUngraded;
    value.usual = 0;
    bool weak = false;
    if (value.kind == Kind::kClockSkew || value.kind == Kind::kDiskFree ||
        value.kind == Kind::kGpuLanes) {
      weak = value.kind == Kind::kClockSkew  ? value.value > kSkewed
             : value.kind == Kind::kDiskFree ? value.value < kLittleDisk
                                             : value.value < 1;
    } else {
      std::vector<double> usual = before[{value.kind, value.node, value.peer}];
      value.earlier = !usual.empty();
      if (!value.earlier) {
        for (const PreflightValue& other : result.values)
          if (other.kind == value.kind && (other.node != value.node || other.peer != value.peer))
            usual.push_back(other.value);
        if (usual.size() < leastPeers) continue;
      }
      value.usual = median(std::move(usual));
      weak = isMoreBetter(value.kind)
                 ? value.value < (value.kind == Kind::kDiskWrite ? kWeakDisk : kWeak) * value.usual
                 : value.value > std::max(value.usual / kWeak, value.usual + kLongTrip);
    }
    value.grade = weak ? Grade::kWeak : Grade::kGood;
  }
}

Result<std::vector<PreflightResult>> readPreflights(const Home& home, const std::string& cluster) {
  const std::string path = fileOf(home, cluster);
  const auto text = readFile(path);
  if (!text.ok()) {
    if (text.error().code == Code::kNotFound) return std::vector<PreflightResult>();
    return text.error();
  }
  std::vector<PreflightResult> out;
  const auto json = nlohmann::json::parse(*text, nullptr, false);
  bool well = json.is_array();
  for (std::size_t i = 0; well && i < json.size(); ++i)
    well = fromJson(json[i], out.emplace_back());
  if (well) return out;
  Error error = makeError(Code::kDataLoss, "{} is damaged", path);
  error.next = "remove it: later results are then compared with new ones";
  return error;
}

Status addPreflight(const Home& home, const std::string& cluster, const PreflightResult& result) {
  LOCKSTEP_ASSIGN(std::vector<PreflightResult> all, readPreflights(home, cluster));
  all.push_back(result);
  nlohmann::json json = nlohmann::json::array();
  for (std::size_t i = all.size() > kKept ? all.size() - kKept : 0; i < all.size(); ++i)
    json.push_back(toJson(all[i]));
  LOCKSTEP_TRY(makeFolders(home.root + "/preflight", 0700));
  return writeFileAtomically(
      fileOf(home, cluster),
      json.dump(1, ' ', true, nlohmann::json::error_handler_t::replace) + "\n", 0600);
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

Message weakText(const PreflightValue& value) {
  const auto mega = [](double bytes) { return fmt::format("{:.4g}", bytes * 1e-6); };
  switch (value.kind) {
    case Kind::kMatmul:
      return message("node {} computes {:.4g} GFLOP/s, usually {:.4g}", value.node,
                     value.value * 1e-9, value.usual * 1e-9);
    case Kind::kMemory:
      return message("node {} reads {} MB/s from memory, usually {}", value.node, mega(value.value),
                     mega(value.usual));
    case Kind::kDiskWrite:
      return message("node {} writes {} MB/s to its disk, usually {}", value.node,
                     mega(value.value), mega(value.usual));
    case Kind::kDiskFree:
      return message("node {} has {} MB of free disk", value.node, mega(value.value));
    case Kind::kClockSkew:
      return message("the clock of node {} is off by {:.3g} s", value.node, value.value);
    case Kind::kGpuLanes:
      return message("a GPU of node {} uses {:.0f} % of its PCIe lanes", value.node,
                     100 * value.value);
    case Kind::kBandwidth:
      return message("link {} → {} sends {} MB/s, usually {}", value.node, value.peer,
                     mega(value.value), mega(value.usual));
    case Kind::kRoundTrip:
      return message("link {} → {} has a round trip of {:.4g} ms, usually {:.4g}", value.node,
                     value.peer, value.value * 1e3, value.usual * 1e3);
  }
  return {};
}

}  // namespace lockstep::app
