// Which messages an all-reduce is made of, and what collectives cost.
#include <algorithm>
#include <bit>
#include <cmath>
#include <map>

#include "engine/planner/pricing.h"

namespace lockstep::planner {
namespace {

// Between ranks of one host, whatever links the hosts.
const cluster::Link kInside{"", 3e-5, 3e9};
// What Gloo gathers on every rank (engine/comm/gloo.cc): so much of a rank, and of all.
constexpr std::int64_t kFewBytes = 32 << 10, kGatheredBytes = 4 << 20;
// The saving from which on an algorithm replaces the communicator's own.
constexpr double kWorthwhile = 0.9;

int rounds(int ranks) { return std::bit_width(static_cast<unsigned>(ranks - 1)); }
// Each round of gathering has eight times as many ranks as the one before.
int gatheringRounds(int ranks) { return (rounds(ranks) + 2) / 3; }

Error cannot(Message what, Message why) {
  Error error = invalidArgument("{}", what);
  error.why = std::move(why);
  return withRemedies(std::move(error), {{{"strategy.all_reduce", "auto"}}});
}

bool isHierarchy(const std::vector<std::int64_t>& hosts) {
  return hosts.size() > 2 && hosts.back() > static_cast<std::int64_t>(hosts.size()) - 1;
}

// Ranks of a host that send to other hosts at once share its link. Returns how much longer that
// takes where a host has at most so many of the ranks.
double linkSharing(int ranks, int mostOfAHost) {
  const double n = ranks, most = mostOfAHost;
  return ranks < 2 ? 1 : std::max(1.0, most * (n - most) / (n - 1));
}

// Without cuts all ranks are on one.
int mostOnAHost(int ranks, const std::vector<std::int64_t>& hosts) {
  if (hosts.size() < 3) return ranks;
  std::int64_t most = 1;
  for (std::size_t i = 1; i < hosts.size(); ++i) most = std::max(most, hosts[i] - hosts[i - 1]);
  return static_cast<int>(most);
}

std::string hostOfRank(const cluster::Cluster& cluster, int rank) {
  const auto device = static_cast<std::size_t>(rank);
  if (device >= cluster.devices.size()) return fmt::format("rank {}", rank);
  const cluster::Device& at = cluster.devices[device];
  return at.host.empty() ? at.node : at.host;
}

}  // namespace

bool crossesHosts(const cluster::Mesh& mesh, const cluster::Cluster& cluster,
                  std::string_view axis) {
  return cluster.link.kind == "gloo" && spansHosts(mesh, cluster, axis);
}

bool spansHosts(const cluster::Mesh& mesh, const cluster::Cluster& cluster, std::string_view axis) {
  for (int rank = 0; rank < mesh.workers(); ++rank) {
    if (mesh.coordinate(rank, axis) != 0) continue;
    for (const int other : mesh.group(rank, axis))
      if (hostOfRank(cluster, other) != hostOfRank(cluster, rank)) return true;
  }
  return false;
}

std::vector<std::int64_t> hostCuts(const cluster::Mesh& mesh, const cluster::Cluster& cluster,
                                   std::string_view axis) {
  std::vector<std::int64_t> common;
  for (int rank = 0; rank < mesh.workers(); ++rank) {
    if (mesh.coordinate(rank, axis) != 0) continue;
    const std::vector<int> group = mesh.group(rank, axis);
    const auto hostOf = [&](std::size_t i) { return hostOfRank(cluster, group[i]); };
    std::vector<std::int64_t> cuts{0};
    for (std::size_t i = 1; i < group.size(); ++i)
      if (hostOf(i) != hostOf(i - 1)) cuts.push_back(static_cast<std::int64_t>(i));
    cuts.push_back(static_cast<std::int64_t>(group.size()));
    if (common.empty()) common = cuts;
    if (common != cuts) return {};
  }
  return common;
}

double sentShare(ir::Op op, int ranks) {
  const double n = ranks;
  switch (op) {
    case ir::Op::kAllReduce:
      return 2 * (n - 1) / n;
    case ir::Op::kReduceScatter:
    case ir::Op::kAllGather:
    case ir::Op::kAllToAll:
      return (n - 1) / n;
    default:
      return 1;
  }
}

double collectiveSeconds(ir::Op op, int ranks, std::int64_t bytes,
                         const std::vector<std::int64_t>& hosts, const cluster::Link& link) {
  if (ranks < 2) return 0;
  // Of two ranks, or all at once, an all-reduce has two. Gloo sends to one rank after another.
  const double rounds = link.kind == "gloo" ? ranks : 2;
  const double shared = linkSharing(ranks, mostOnAHost(ranks, hosts));
  return (op == ir::Op::kAllReduce ? rounds : rounds / 2) * link.latency / 2 +
         sentShare(op, ranks) * shared * static_cast<double>(bytes) / link.bytesPerSecond;
}

double allReduceSeconds(ir::Algorithm how, int ranks, std::int64_t bytes,
                        const std::vector<std::int64_t>& hosts, const cluster::Link& link) {
  if (ranks < 2) return 0;
  const double n = ranks;
  const double message = static_cast<double>(bytes) / link.bytesPerSecond;  // of all, to one rank
  const double all = sentShare(ir::Op::kAllReduce, ranks) * message;
  const double round = link.latency / 2;
  const double h = std::max(1.0, static_cast<double>(hosts.size()) - 1);
  const int most = mostOnAHost(ranks, hosts);
  const double shared = linkSharing(ranks, most);
  switch (how) {
    case ir::Algorithm::kDirect:
      if (link.kind == "gloo" && ranks > 2 && bytes <= std::min(kFewBytes, kGatheredBytes / ranks))
        return gatheringRounds(ranks) * link.latency + (n - 1) * message * shared;
      return collectiveSeconds(ir::Op::kAllReduce, ranks, bytes, hosts, link);
    case ir::Algorithm::kRing:
      return 2 * (n - 1) * round + all;
    case ir::Algorithm::kHalvingDoubling: {
      const auto power = std::bit_floor(static_cast<unsigned>(ranks));
      const double lent = power == static_cast<unsigned>(ranks) ? 0 : 2 * (round + message);
      return 2 * (std::bit_width(power) - 1) * round + all * shared + lent;
    }
    case ir::Algorithm::kTree:
      return 2 * rounds(ranks) * (round + message);
    case ir::Algorithm::kHierarchical: {
      const double inside =
          std::min(round, kInside.latency) +
          static_cast<double>(bytes) / std::max(link.bytesPerSecond, kInside.bytesPerSecond);
      return 2 * (h - 1) * round + 2 * (h - 1) / h * message + 2 * rounds(most) * inside;
    }
  }
  return 0;
}

Status chooseAllReduces(plan::Plan& plan, const cluster::Cluster& cluster,
                        std::string_view forced) {
  const auto asked = ir::algorithmFromName(forced);
  if (!asked && forced != "auto") {
    std::vector<std::string_view> known{"auto"};
    for (const ir::Algorithm one : ir::kAlgorithms) known.push_back(ir::algorithmName(one));
    return cannot(message("unknown all-reduce {}", forced),
                  message("strategy.all_reduce is one of {}", fmt::join(known, ", ")));
  }
  if (asked && *asked != ir::Algorithm::kDirect && cluster.link.kind == "nccl")
    return cannot(message("gradients on GPUs are not summed by {}", forced),
                  "NCCL chooses the algorithm itself");
  // Inside a host there are no links on which messages could be fewer or go elsewhere.
  const bool links =
      cluster.link.kind == "gloo" &&
      std::any_of(cluster.devices.begin(), cluster.devices.end(),
                  [&](const auto& device) { return device.host != cluster.devices[0].host; });
  std::map<std::string, std::vector<std::int64_t>, std::less<>> hostsOf;
  std::map<std::string, cluster::Link, std::less<>> linkOf;
  for (plan::Program& program : plan.programs) {
    for (plan::Body& body : program.bodies) {
      for (plan::Step& step : body.steps) {
        if (step.op != ir::Op::kAllReduce || step.axis == plan.mesh.messageAxis()) continue;
        const auto [known, isNew] = hostsOf.try_emplace(step.axis);
        if (isNew) known->second = hostCuts(plan.mesh, cluster, step.axis);
        const std::vector<std::int64_t>& hosts = known->second;
        ir::Algorithm best = ir::Algorithm::kDirect;
        if (asked && step.axis == "data") {
          best = *asked;
        } else if (links) {
          const int ranks = plan.mesh.axisSize(step.axis);
          const auto [link, isFirst] = linkOf.try_emplace(step.axis);
          if (isFirst) link->second = linkAlong(plan.mesh, cluster, step.axis);
          const auto seconds = [&](ir::Algorithm how) {
            return allReduceSeconds(how, ranks, step.bytes, hosts, link->second);
          };
          double least = kWorthwhile * seconds(ir::Algorithm::kDirect);
          for (const ir::Algorithm how : ir::kAlgorithms) {
            if (how == ir::Algorithm::kHierarchical && !isHierarchy(hosts)) continue;
            if (seconds(how) >= least) continue;
            best = how;
            least = seconds(how);
          }
        }
        if (best == ir::Algorithm::kDirect) continue;
        if (best == ir::Algorithm::kHierarchical) {
          if (!isHierarchy(hosts)) {
            return cannot("an all-reduce cannot be hierarchical here",
                          "it needs ranks on several hosts, several of them on one, those of a "
                          "host next to each other, and all groups alike");
          }
          step.attrs["hosts"] = hosts;
        }
        step.attrs["algorithm"] = std::string(ir::algorithmName(best));
      }
    }
  }
  return {};
}

}  // namespace lockstep::planner
