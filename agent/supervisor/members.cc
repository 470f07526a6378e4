#include "agent/supervisor/members.h"

#include <algorithm>
#include <numeric>

#include "agent/supervisor/recovery.h"
#include "agent/worker/prepare.h"
#include "engine/plan/plan.h"
#include "engine/specs/planned.h"
#include "engine/specs/workload.h"

namespace lockstep::agent {
namespace {

using spec::v1::ClusterSpec;
using spec::v1::NodeSpec;

// How the ranks of these nodes exchange, where those before used `comm`.
std::string commOf(const ClusterSpec& cluster, const spec::v1::StrategySpec& strategy,
                   const std::string& comm) {
  const auto nodes = specs::nodesWithRanks(cluster, strategy);
  if (nodes.size() > 1) return comm == "nccl" ? comm : "gloo";
  if (comm != "gloo") return comm;
  return specs::deviceCount(*nodes.front()) > 1 ? "shm" : "in-process";
}

int worldOf(const std::map<std::string, std::vector<int>>& ranks) {
  int world = 0;
  for (const auto& [node, own] : ranks) world += static_cast<int>(own.size());
  return world;
}

// The shares that the ranks of this cluster have: each node's are as they were, and those of a node
// without any are the mean. Empty: even ones, where they are not each rank's.
std::vector<double> sharesIn(const ClusterSpec& cluster, const node::v1::PrepareRequest& request) {
  const auto& strategy = request.spec().strategy();
  const std::vector<double> all(strategy.shares().begin(), strategy.shares().end());
  const auto before = ranksByNode(request);
  if (all.empty() || worldOf(before) != static_cast<int>(all.size())) return {};
  const double mean =
      std::accumulate(all.begin(), all.end(), 0.0) / static_cast<double>(all.size());
  std::vector<double> out;
  for (const NodeSpec* node : specs::nodesWithRanks(cluster, strategy)) {
    const auto own = before.find(node->name());
    for (int i = 0; i < specs::deviceCount(*node); ++i) {
      const auto at = static_cast<std::size_t>(i);
      const bool has = own != before.end() && at < own->second.size();
      out.push_back(has ? all[static_cast<std::size_t>(own->second[at])] : mean);
    }
  }
  return out;
}

void putFirst(const std::string& name, ClusterSpec& cluster) {
  auto& nodes = *cluster.mutable_nodes();
  const auto own = std::find_if(nodes.begin(), nodes.end(),
                                [&](const NodeSpec& node) { return node.name() == name; });
  if (own != nodes.end()) std::rotate(nodes.begin(), own, own + 1);
}

// The members of a generation in which this cluster trains; the request's node comes first.
Result<node::v1::Members> planFor(ClusterSpec cluster, const node::v1::PrepareRequest& request) {
  putFirst(request.node(), cluster);
  const spec::v1::StrategySpec& strategy = request.spec().strategy();
  const auto withRanks = specs::nodesWithRanks(cluster, strategy);
  if (withRanks.empty())
    return makeError(Code::kUnavailable, "none of the run's remaining nodes has ranks");
  if (withRanks.front()->name() != request.node())
    return makeError(Code::kUnavailable, "node {} cannot coordinate the run", request.node());
  node::v1::Members out;
  if (!request.spec().has_workload()) out.set_comm(commOf(cluster, strategy, request.comm()));
  *out.mutable_cluster() = cluster;
  cluster.set_comm(out.comm());
  std::vector<specs::NodeHost> hosts;
  for (const auto& host : request.hosts())
    hosts.push_back({host.node(), host.host(), host.cores()});
  LOCKSTEP_ASSIGN(const specs::Planned made,
                  specs::makePlanned(request.spec(), cluster, hosts, planner::CostModel()));
  out.set_plan(plan::text(made.plan));
  *out.mutable_shares() = strategy.shares();
  return out;
}

// Likewise, of ranks that need not be those of the request.
Result<node::v1::Members> planForOthers(ClusterSpec cluster,
                                        const node::v1::PrepareRequest& request) {
  if (request.spec().strategy().shares().empty()) return planFor(std::move(cluster), request);
  putFirst(request.node(), cluster);  // as the ranks are numbered
  const std::vector<double> shares = sharesIn(cluster, request);
  node::v1::PrepareRequest with = request;
  auto& own = *with.mutable_spec()->mutable_strategy()->mutable_shares();
  own.Assign(shares.begin(), shares.end());
  auto members = planFor(cluster, with);
  if (members.ok() || shares.empty()) return members;
  own.Clear();  // a small batch, of which a rank would have no sample
  return planFor(std::move(cluster), with);
}

bool isSpareRole(const NodeSpec& node) {
  return std::find(node.roles().begin(), node.roles().end(), "spare") != node.roles().end();
}

}  // namespace

std::map<std::string, std::vector<int>> ranksByNode(const node::v1::PrepareRequest& request) {
  std::map<std::string, std::vector<int>> out;
  int rank = 0;
  for (const auto* node : specs::nodesWithRanks(request.cluster(), request.spec().strategy()))
    for (int i = 0; i < specs::deviceCount(*node) && rank < specs::kMaxRanks; ++i)
      out[node->name()].push_back(rank++);
  return out;
}

bool replacesNodes(const spec::v1::RunSpec& spec, const ClusterSpec& launched) {
  const std::string& policy = spec.recovery().policy();
  if (!restartsAfter(FailureKind::kNodeLost, specs::recoveryOf(spec))) return false;
  return policy == "shrink" || (policy == "restart" && !specs::spareNodes(launched).empty());
}

bool continuesWithoutAny(const spec::v1::RunSpec& spec, const ClusterSpec& launched,
                         std::size_t nodes) {
  return nodes > 2 && replacesNodes(spec, launched);
}

Result<node::v1::Members> membersWithout(const std::vector<std::string>& lost,
                                         const node::v1::PrepareRequest& request,
                                         const std::function<bool(const std::string&)>& answers) {
  const auto isLost = [&](const std::string& name) {
    return std::find(lost.begin(), lost.end(), name) != lost.end();
  };
  std::vector<const NodeSpec*> spares = specs::spareNodes(request.cluster());
  std::erase_if(
      spares, [&](const NodeSpec* node) { return isLost(node->name()) || !answers(node->name()); });
  ClusterSpec cluster = request.cluster();
  cluster.clear_nodes();
  std::vector<std::string> taken;
  for (const NodeSpec& node : request.cluster().nodes()) {
    if (!isLost(node.name())) {
      *cluster.add_nodes() = node;
    } else if (taken.size() < spares.size()) {
      NodeSpec& place = *cluster.add_nodes();
      place = *spares[taken.size()];
      *place.mutable_roles() = node.roles();
      taken.push_back(place.name());
    } else if (request.spec().recovery().policy() != "shrink") {
      Error error = makeError(Code::kUnavailable, "no spare node can replace node {}", node.name());
      error.next = "add a node with the role spare, or set recovery.policy=shrink";
      return error;
    }
  }
  auto& nodes = *cluster.mutable_nodes();
  nodes.erase(std::remove_if(nodes.begin(), nodes.end(),
                             [&](const NodeSpec& node) {
                               return isSpareRole(node) && std::find(taken.begin(), taken.end(),
                                                                     node.name()) != taken.end();
                             }),
              nodes.end());
  auto members = planForOthers(std::move(cluster), request);
  // What is divided by the ranks may be divided by fewer of them.
  if (!members.ok() && !taken.empty() && request.spec().recovery().policy() == "shrink")
    return membersWithout(lost, request, [](const std::string&) { return false; });
  return members;
}

Result<node::v1::Members> membersWithSpares(
    const ClusterSpec& launched, const node::v1::PrepareRequest& request,
    const std::function<bool(const std::string&)>& answers) {
  const spec::v1::StrategySpec& strategy = request.spec().strategy();
  ClusterSpec cluster = request.cluster();
  std::vector<const NodeSpec*> lost = specs::nodesWithRanks(launched, strategy);
  std::erase_if(lost, [&](const NodeSpec* node) {
    const auto now = specs::nodesWithRanks(cluster, strategy);
    return std::any_of(now.begin(), now.end(),
                       [&](const NodeSpec* one) { return one->name() == node->name(); });
  });
  std::size_t missing = specs::nodesWithRanks(launched, strategy).size() -
                        specs::nodesWithRanks(cluster, strategy).size();
  // A node takes its own place before others take what is left.
  const auto place = [&](NodeSpec& spare, const NodeSpec& of) {
    *spare.mutable_roles() = of.roles();
    std::erase(lost, &of);
    --missing;
  };
  const auto usable = [&](const NodeSpec& node) {
    return missing > 0 && isSpareRole(node) && answers(node.name());
  };
  for (NodeSpec& node : *cluster.mutable_nodes()) {
    const auto own = std::find_if(lost.begin(), lost.end(),
                                  [&](const NodeSpec* one) { return one->name() == node.name(); });
    if (usable(node) && own != lost.end()) place(node, **own);
  }
  for (NodeSpec& node : *cluster.mutable_nodes())
    if (usable(node) && !lost.empty()) place(node, *lost.front());
  return planForOthers(std::move(cluster), request);
}

Result<node::v1::Members> membersSharing(const std::vector<double>& shares,
                                         const node::v1::PrepareRequest& request) {
  node::v1::PrepareRequest with = request;
  with.mutable_spec()->mutable_strategy()->mutable_shares()->Assign(shares.begin(), shares.end());
  return planFor(request.cluster(), with);
}

Status apply(const node::v1::Members& members, node::v1::PrepareRequest& request) {
  LOCKSTEP_TRY(checkRankCounts(members.cluster()));
  *request.mutable_cluster() = members.cluster();
  request.set_plan(members.plan());
  request.set_comm(members.comm());
  if (!request.spec().has_workload())
    *request.mutable_spec()->mutable_strategy()->mutable_shares() = members.shares();
  request.clear_ranks();
  const auto ranks = ranksByNode(request);
  if (const auto own = ranks.find(request.node()); own != ranks.end())
    for (const int rank : own->second) request.add_ranks(rank);
  return {};
}

}  // namespace lockstep::agent
