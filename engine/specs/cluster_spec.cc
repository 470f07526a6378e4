#include <algorithm>
#include <array>
#include <cctype>
#include <set>

#include "engine/cluster/assumed.h"
#include "engine/ir/graph.h"
#include "engine/specs/data_url.h"
#include "engine/specs/field.h"
#include "engine/specs/links.h"
#include "engine/specs/options.h"
#include "engine/specs/specs.h"

namespace lockstep::specs {

namespace {

using spec::v1::ClusterSpec;
using spec::v1::NodeSpec;

bool has(const NodeSpec& node, std::string_view role) {
  return std::find(node.roles().begin(), node.roles().end(), role) != node.roles().end();
}

bool isSpare(const NodeSpec& node) { return has(node, "spare"); }

bool works(const NodeSpec& node) {
  return node.roles().empty() || has(node, "worker") || has(node, "chief");
}

constexpr std::size_t kLongestName = 128;

// Checks that a node name is usable as a folder name.
bool isNodeName(std::string_view name) {
  return !name.empty() && name.front() != '.' && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  });
}

Status checkDeviceFields(const google::protobuf::RepeatedPtrField<spec::v1::DeviceSpec>& devices,
                         const std::string& path) {
  for (int i = 0; i < devices.size(); ++i) {
    const auto& device = devices[i];
    const std::string at = fmt::format("{}.devices[{}]", path, i);
    for (const auto& [field, isGiven] :
         {std::pair("gpus", device.gpus() > 0), std::pair("model", !device.model().empty()),
          std::pair("memory_gib", device.memory_gib() > 0),
          std::pair("reserved_gib", device.reserved_gib() > 0)})
      if (isGiven && device.kind() != "cuda")
        return wrongField(
            fmt::format("{}.{}", at, field),
            message("{} is given for a device of kind cpu; expected kind: cuda", field),
            {{{fmt::format("{}.{}", at, field), ""}}});
  }
  return {};
}

Status checkNode(const NodeSpec& node, const std::string& path,
                 std::set<std::string, std::less<>>& names) {
  if (node.name().size() > kLongestName)
    return wrongField(path + ".name", message("name has {} characters; expected {} at most",
                                              node.name().size(), kLongestName));
  if (!isNodeName(node.name()))
    return wrongField(path + ".name", message("name is \"{}\"; expected letters, digits, '.', "
                                              "'_' and '-', not '.' first, 128 at most",
                                              node.name()));
  if (!names.insert(node.name()).second)
    return wrongField(path + ".name", message("another node is named {}; expected a name of its "
                                              "own",
                                              node.name()));
  if (works(node) + has(node, "ps") + has(node, "evaluator") + isSpare(node) > 1)
    return wrongField(path + ".roles",
                      message("roles is {}; expected one of worker, ps, evaluator and spare; to "
                              "give a host several roles, list it as several nodes",
                              fmt::join(node.roles(), " and ")));
  if (!node.address().empty() && !node.interface().empty())
    return wrongField(path + ".interface", "address and interface are both given; expected one",
                      {{{path + ".interface", ""}}});
  for (const auto& [file, own] : node.data()) LOCKSTEP_TRY(checkUrl(path + ".data", own));
  return checkDeviceFields(node.devices(), path);
}

bool isLoopback(std::string_view address) {
  return address == "localhost" || address.ends_with(".localhost") || address.starts_with("127.") ||
         address == "::1" || address == "[::1]" || address == "ip6-localhost";
}

// Returns a key that is equal for nodes on one host, as far as the spec tells: two SSH names may
// mean one host.
std::string hostOf(const NodeSpec& node) {
  if (!node.has_ssh() || (isLoopback(node.ssh().host()) && node.ssh().proxy_jump().empty()))
    return {};
  return node.ssh().host() + " " + node.ssh().proxy_jump();
}

// Checks that node addresses are not loopback or wildcard addresses where nodes are on several
// hosts.
Status checkAddresses(const ClusterSpec& spec) {
  std::vector<std::string> hosts;
  for (const NodeSpec& node : spec.nodes()) hosts.push_back(hostOf(node));
  const auto second = std::find_if(hosts.begin(), hosts.end(),
                                   [&](const std::string& host) { return host != hosts.front(); });
  for (int i = 0; i < spec.nodes_size(); ++i) {
    const NodeSpec& node = spec.nodes(i);
    const std::string path = fmt::format("nodes[{}].address", i);
    if (node.address() == "0.0.0.0" || node.address() == "::")
      return wrongField(path,
                        message("address is {}, which means every address; expected one of the "
                                "node's, or none, to have one chosen",
                                node.address()),
                        {{{path, ""}}});
    if (!isLoopback(node.address()) || second == hosts.end()) continue;
    const bool isOnFirst = hosts[static_cast<std::size_t>(i)] == hosts.front();
    const NodeSpec& other = spec.nodes(isOnFirst ? static_cast<int>(second - hosts.begin()) : 0);
    return wrongField(
        path,
        message("address is {}, loopback, and node {} is on another host; expected an address "
                "that {} reaches, or none, to have one chosen",
                node.address(), other.name(), other.name()),
        {{{path, ""}}});
  }
  return {};
}

void addDevices(const NodeSpec& node, const spec::v1::TrainingSpec& training,
                const std::string& host, cluster::Cluster& out) {
  for (const RankDevice& device : rankDevices(node, training))
    out.devices.push_back(
        {node.name(), host, device.kind, device.number, device.threads, device.figures});
}

void addHost(const std::string& name, int cores, cluster::Cluster& out) {
  const auto it = std::find_if(out.hosts.begin(), out.hosts.end(),
                               [&](const cluster::Host& host) { return host.name == name; });
  if (it == out.hosts.end()) out.hosts.push_back({name, std::max(1, cores)});
}

const std::vector<Remedy> kChosen{{{"comm", ""}}};  // the default communicator

Status checkEnergy(const spec::v1::EnergySpec& energy) {
  if (energy.busy_watts() <= 0 && energy.idle_watts() > 0)
    return wrongField("energy.idle_watts",
                      message("idle_watts is given without busy_watts; expected both"));
  if (energy.busy_watts() < energy.idle_watts())
    return wrongField(
        "energy.busy_watts",
        message("busy_watts is less than idle_watts; expected at least {}", energy.idle_watts()));
  const std::string& currency = energy.currency();
  const bool isPlain = std::all_of(currency.begin(), currency.end(), [](unsigned char c) {
    return c < 0x80 && std::isalpha(c) != 0;
  });
  constexpr std::size_t kLongest = 8;
  if (!isPlain || currency.size() > kLongest)
    return wrongField(
        "energy.currency",
        message("the currency is no code; expected up to {} letters, as EUR", kLongest));
  return {};
}

// NCCL needs one GPU for each rank, and no parameter servers.
Status checkNccl(const spec::v1::StrategySpec& strategy, const cluster::Cluster& cluster) {
  if (hasServers(strategy))
    return wrongField(
        "comm",
        "comm is nccl but parameter servers exchange through the host; expected shm or gloo",
        kChosen);
  std::set<std::pair<std::string, int>> taken;
  for (const cluster::Device& device : cluster.devices) {
    if (device.kind != "cuda")
      return wrongField(
          "comm",
          message(
              "comm is nccl but node {} has ranks on processors; expected shm or gloo, or devices "
              "of kind cuda alone",
              device.node),
          kChosen);
    if (!taken.emplace(device.node, device.index).second)
      return wrongField(
          "comm",
          message(
              "comm is nccl but ranks share GPU {} of node {}; expected shm or gloo, or a GPU for "
              "each rank",
              device.index, device.node),
          kChosen);
  }
  return {};
}

Status chooseLink(const ClusterSpec& spec, const spec::v1::StrategySpec& strategy,
                  std::size_t nodes, bool hostsKnown, cluster::Cluster& out) {
  std::string kind = spec.comm();
  if (kind.empty() && out.devices.size() > 1 && checkNccl(strategy, out).ok()) kind = "nccl";
  if (kind.empty()) kind = nodes == 1 ? "shm" : "gloo";
  if (kind == "in-process" && nodes > 1)
    return wrongField("comm", "comm is in-process but there are several nodes; expected gloo",
                      kChosen);
  if (kind == "shm" && hostsKnown && out.hosts.size() > 1)
    return wrongField("comm", "comm is shm but the nodes are on several hosts; expected gloo",
                      kChosen);
  out.link = cluster::assumedLink(kind, out.hosts.size() > 1);
  if (kind == "nccl") LOCKSTEP_TRY(checkNccl(strategy, out));
  resolveLinks(spec, out);
  return {};
}

}  // namespace

std::vector<const NodeSpec*> nodesWithRanks(const ClusterSpec& spec,
                                            const spec::v1::StrategySpec& strategy) {
  std::vector<const NodeSpec*> out;
  for (const NodeSpec& node : spec.nodes())
    if (works(node)) out.push_back(&node);
  for (const NodeSpec& node : spec.nodes())
    if (has(node, "ps") && hasServers(strategy)) out.push_back(&node);
  return out;
}

std::vector<const NodeSpec*> spareNodes(const ClusterSpec& spec) {
  std::vector<const NodeSpec*> out;
  for (const NodeSpec& node : spec.nodes())
    if (isSpare(node)) out.push_back(&node);
  return out;
}

Result<ClusterSpec> withSpares(const spec::v1::RecoverySpec& recovery, const ClusterSpec& cluster) {
  const auto working = std::count_if(cluster.nodes().begin(), cluster.nodes().end(), works);
  const auto most = working + std::ssize(spareNodes(cluster)) - 1;
  if (!cluster.nodes().empty() && recovery.spares() > most)
    return wrongField(
        "recovery.spares",
        message("{} nodes are to wait as spares, and the cluster has {} that train; expected at "
                "most {}",
                recovery.spares(), working, std::max<std::ptrdiff_t>(most, 0)));
  ClusterSpec out = cluster;
  auto missing = recovery.spares() - std::ssize(spareNodes(cluster));
  for (int i = out.nodes_size() - 1; i >= 0 && missing > 0; --i) {
    NodeSpec& node = *out.mutable_nodes(i);
    if (!works(node)) continue;
    node.clear_roles();
    node.add_roles("spare");
    --missing;
  }
  return out;
}

const NodeSpec* evaluatorNode(const ClusterSpec& spec) {
  for (const NodeSpec& node : spec.nodes())
    if (has(node, "evaluator")) return &node;
  return nullptr;
}

Result<cluster::Cluster> toCluster(const ClusterSpec& spec, const std::vector<NodeHost>& hosts,
                                   const spec::v1::StrategySpec& strategy,
                                   const spec::v1::TrainingSpec& training) {
  LOCKSTEP_TRY(checkOptions(spec, ""));
  LOCKSTEP_TRY(checkEnergy(spec.energy()));
  if (spec.nodes().empty()) return wrongField("nodes", "there are no nodes; expected at least one");
  LOCKSTEP_TRY(checkDeviceFields(spec.placement().devices(), "placement"));
  if (spec.nodes_size() > kMaxRanks)
    return wrongField("nodes", message("there are more than {} nodes", kMaxRanks));
  if (spec.links_size() > kMaxRanks)
    return wrongField("links", message("there are more than {} links", kMaxRanks));
  cluster::Cluster out;
  std::set<std::string, std::less<>> names;
  for (int i = 0; i < spec.nodes_size(); ++i)
    LOCKSTEP_TRY(checkNode(spec.nodes(i), fmt::format("nodes[{}]", i), names));
  for (int i = 0; i < spec.nodes_size(); ++i)
    if (has(spec.nodes(i), "evaluator") && &spec.nodes(i) != evaluatorNode(spec))
      return wrongField(fmt::format("nodes[{}].roles", i),
                        message("{} is an evaluator, and so is {}; expected one in a cluster",
                                spec.nodes(i).name(), evaluatorNode(spec)->name()),
                        {{{fmt::format("nodes[{}].roles", i), ""}}});
  LOCKSTEP_TRY(checkAddresses(spec));
  if (std::none_of(spec.nodes().begin(), spec.nodes().end(), works))
    return wrongField("nodes", "no node has the role worker; expected at least one");
  const std::vector<const NodeSpec*> nodes = nodesWithRanks(spec, strategy);
  bool hostsKnown = true;
  int servers = 0;
  for (const NodeSpec* one : nodes) {
    const NodeSpec& node = *one;
    const int ranks = deviceCount(node);
    if (ranks > kMaxRanks - static_cast<int>(out.devices.size()))
      return wrongField(spec.has_placement() ? "placement.nodes" : "nodes",
                        message("there are more than {} ranks", kMaxRanks));
    if (has(node, "ps")) servers += ranks;
    const auto known = std::find_if(hosts.begin(), hosts.end(),
                                    [&](const NodeHost& host) { return host.node == node.name(); });
    const bool found = known != hosts.end();
    const std::size_t first = out.devices.size();
    const std::string host = found ? known->host : node.name();
    addDevices(node, training, host, out);
    int threads = 0;
    for (std::size_t d = first; d < out.devices.size(); ++d) threads += out.devices[d].threads;
    addHost(host, found ? known->cores : threads, out);
    hostsKnown = hostsKnown && found;
  }
  LOCKSTEP_ASSIGN(out.mesh, toMesh(strategy, static_cast<int>(out.devices.size()), servers));
  LOCKSTEP_TRY(chooseLink(spec, strategy, nodes.size(), hostsKnown, out));
  LOCKSTEP_TRY(checkDevices(spec, training));
  return out;
}

}  // namespace lockstep::specs
