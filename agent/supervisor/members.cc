#include "agent/supervisor/members.h"

#include <algorithm>

#include "agent/worker/prepare.h"
#include "engine/plan/plan.h"
#include "engine/specs/planned.h"

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

// The members of a generation in which this cluster trains; the request's node comes first.
Result<node::v1::Members> planFor(ClusterSpec cluster, const node::v1::PrepareRequest& request) {
  auto& nodes = *cluster.mutable_nodes();
  const auto own = std::find_if(nodes.begin(), nodes.end(), [&](const NodeSpec& node) {
    return node.name() == request.node();
  });
  if (own != nodes.end()) std::rotate(nodes.begin(), own, own + 1);
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
  return out;
}

bool isSpareRole(const NodeSpec& node) {
  return std::find(node.roles().begin(), node.roles().end(), "spare") != node.roles().end();
}

}  // namespace

std::map<std::string, std::vector<int>> ranksByNode(const node::v1::PrepareRequest& request) {
  std::map<std::string, std::vector<int>> out;
  int rank = 0;
  for (const auto* node : specs::nodesWithRanks(request.cluster(), request.spec().strategy()))
    for (int i = 0; i < specs::deviceCount(*node); ++i) out[node->name()].push_back(rank++);
  return out;
}

bool replacesNodes(const spec::v1::RunSpec& spec, const ClusterSpec& cluster) {
  const std::string& policy = spec.recovery().policy();
  return policy == "shrink" || (policy == "restart" && !specs::spareNodes(cluster).empty());
}

bool continuesWithoutAny(const node::v1::PrepareRequest& request, std::size_t nodes) {
  return nodes > 2 && replacesNodes(request.spec(), request.cluster());
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
  return planFor(std::move(cluster), request);
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
  return planFor(std::move(cluster), request);
}

void apply(const node::v1::Members& members, node::v1::PrepareRequest& request) {
  *request.mutable_cluster() = members.cluster();
  request.set_plan(members.plan());
  request.set_comm(members.comm());
  request.clear_ranks();
  const auto ranks = ranksByNode(request);
  if (const auto own = ranks.find(request.node()); own != ranks.end())
    for (const int rank : own->second) request.add_ranks(rank);
}

}  // namespace lockstep::agent
