// The scene of an all-reduce: the messages that the executor would send, round by round.
#include <algorithm>
#include <bit>
#include <numeric>

#include "app/learn/scene_parts.h"
#include "engine/cluster/assumed.h"
#include "engine/plan/all_reduce.h"
#include "engine/planner/pricing.h"

namespace lockstep::app {
namespace {

using plan::Exchange;

std::vector<std::int64_t> hostsOf(int ranks, int perNode) {
  std::vector<std::int64_t> out;
  for (int r = 0; r <= ranks; r += perNode) out.push_back(r);
  return out;
}

int slicesOf(ir::Algorithm how, int ranks, int nodes) {
  switch (how) {
    case ir::Algorithm::kHalvingDoubling:
      return static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks)));
    case ir::Algorithm::kTree:
      return 1;
    case ir::Algorithm::kHierarchical:
      return nodes;
    default:
      return ranks;
  }
}

// A reduce-scatter and an all-gather between all: what stepTraffic() counts for the communicator's
// own algorithm.
std::vector<SceneMessage> directMessages(int ranks, std::int64_t count) {
  std::vector<SceneMessage> out;
  const auto cut = [&](int k) { return count * k / ranks; };
  for (int round = 0; round < 2; ++round)
    for (int from = 0; from < ranks; ++from)
      for (int to = 0; to < ranks; ++to) {
        const int slice = round == 0 ? to : from;
        if (from != to) out.push_back({round, from, to, cut(slice), cut(slice + 1), round == 0});
      }
  return out;
}

// Messages whose two ranks have both come to them travel in one round.
std::vector<SceneMessage> messagesOf(const std::vector<std::vector<Exchange>>& ranks) {
  std::vector<SceneMessage> out;
  std::vector<std::size_t> at(ranks.size());
  const auto current = [&](int rank) -> const Exchange* {
    const auto r = static_cast<std::size_t>(rank);
    return at[r] < ranks[r].size() ? &ranks[r][at[r]] : nullptr;
  };
  const auto ready = [&](int rank) {
    const Exchange* own = current(rank);
    if (own == nullptr) return false;
    const Exchange* to = own->to < 0 ? nullptr : current(own->to);
    const Exchange* from = own->from < 0 ? nullptr : current(own->from);
    return (own->to < 0 || (to != nullptr && to->from == rank)) &&
           (own->from < 0 || (from != nullptr && from->to == rank));
  };
  const int n = static_cast<int>(ranks.size());
  for (int round = 0;; ++round) {
    std::vector<int> moving;
    for (int rank = 0; rank < n; ++rank)
      if (ready(rank)) moving.push_back(rank);
    if (moving.empty()) return out;
    for (const int rank : moving) {
      const Exchange& own = *current(rank);
      if (own.to < 0) continue;
      out.push_back({round, rank, own.to, own.sent.begin, own.sent.end, current(own.to)->reduces});
    }
    for (const int rank : moving) ++at[static_cast<std::size_t>(rank)];
  }
}

void addSums(MessagesScene& scene) {
  using Sums = std::vector<std::vector<int>>;
  Sums now(static_cast<std::size_t>(scene.ranks),
           std::vector<int>(static_cast<std::size_t>(scene.slices), 1));
  scene.sums.push_back(now);
  for (int round = 0; round < scene.rounds; ++round) {
    const Sums before = now;
    for (const SceneMessage& message : scene.messages) {
      if (message.round != round) continue;
      for (int slice = 0; slice < scene.slices; ++slice) {
        const std::int64_t begin = scene.elements * slice / scene.slices;
        if (begin < message.begin || begin >= message.end) continue;
        const auto s = static_cast<std::size_t>(slice);
        int& to = now[static_cast<std::size_t>(message.to)][s];
        const int from = before[static_cast<std::size_t>(message.from)][s];
        to = message.reduces ? to + from : from;
      }
    }
    scene.sums.push_back(now);
  }
}

MessagesScene drawn(ir::Algorithm how, int ranks, int perNode, std::int64_t elements) {
  MessagesScene out;
  out.ranks = ranks;
  out.elements = elements;
  out.slices = std::max(1, slicesOf(how, ranks, ranks / perNode));
  if (how == ir::Algorithm::kDirect) {
    if (ranks > 1) out.messages = directMessages(ranks, elements);
  } else {
    std::vector<std::vector<Exchange>> exchanges;
    for (int rank = 0; rank < ranks; ++rank)
      exchanges.push_back(plan::exchanges(how, rank, ranks, elements, hostsOf(ranks, perNode)));
    out.messages = messagesOf(exchanges);
  }
  for (const SceneMessage& message : out.messages)
    out.rounds = std::max(out.rounds, message.round + 1);
  addSums(out);
  return out;
}

void addFigures(Scene& scene, const MessagesScene& drawn, double bytes) {
  std::vector<double> sent(static_cast<std::size_t>(drawn.ranks));
  for (const SceneMessage& message : drawn.messages)
    sent[static_cast<std::size_t>(message.from)] +=
        4.0 * static_cast<double>(message.end - message.begin);
  const double most = *std::max_element(sent.begin(), sent.end());
  const double all = std::accumulate(sent.begin(), sent.end(), 0.0), n = drawn.ranks;
  addFigure(scene, "rounds", {"Rounds", "轮数"}, "", drawn.rounds);
  addFigure(scene, "messages", {"Messages", "消息数"}, "",
            static_cast<double>(drawn.messages.size()));
  addFigure(scene, "sent_kib", {"Sent by the rank that sends most", "发送最多的 rank 的发送量"},
            "KiB", most / 1024);
  addFigure(scene, "sent_all_kib", {"Sent by all ranks", "所有 rank 的发送量"}, "KiB", all / 1024);
  addFigure(scene, "sent_factor", {"Sent, in vectors", "发送量（以向量计）"}, "", most / bytes);
  // Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations",
  // 2009
  addFigure(scene, "sent_formula",
            {"Least that must be sent, in vectors", "最少发送量（以向量计）"}, "", 2 * (n - 1) / n);
}

}  // namespace

Result<Scene> makeAllReduceScene(const Circumstances& at) {
  LOCKSTEP_ASSIGN(const int nodes, nodesOf(at));
  const int ranks = at.whole("cluster.ranks"), perNode = ranks / nodes;
  const std::string name = at.option("strategy.all_reduce");
  const auto how = ir::algorithmFromName(name.empty() ? "ring" : name);
  if (!how) return invalidArgument("an all-reduce by {} has no fixed messages", name);
  const auto bytes = static_cast<std::int64_t>(1024 * at.number("all_reduce.kib"));
  cluster::Link link = cluster::assumedLink("gloo", true);
  link.latency = 1e-6 * at.number("cluster.latency_us");
  link.bytesPerSecond = 1e6 / 8 * at.number("cluster.bandwidth_mbit");
  const std::vector<std::int64_t> hosts = hostsOf(ranks, perNode);
  Scene out;
  out.messages = drawn(*how, ranks, perNode, bytes / 4);
  const auto time = [&](ir::Algorithm one) {
    return 1e3 * planner::allReduceSeconds(one, ranks, bytes, hosts, link);
  };
  addFigure(out, "ranks", {"Ranks", "rank 数"}, "", ranks);
  addFigure(out, "size_kib", {"Size of the vector", "向量大小"}, "KiB",
            static_cast<double>(bytes) / 1024);
  addFigure(out, "time_ms", {"Time", "时间"}, "ms", time(*how));
  addFigures(out, *out.messages, static_cast<double>(bytes));
  addFigure(out, "ring_ms", {"Ring", "环"}, "ms", time(ir::Algorithm::kRing));
  addFigure(out, "tree_ms", {"Tree", "树"}, "ms", time(ir::Algorithm::kTree));
  addFigure(out, "halving_doubling_ms", {"Halving-doubling", "减半加倍"}, "ms",
            time(ir::Algorithm::kHalvingDoubling));
  if (ranks > 1)
    addFigure(out, "ring_over_tree", {"Ring over tree", "环与树之比"}, "",
              time(ir::Algorithm::kRing) / time(ir::Algorithm::kTree));
  return out;
}

}  // namespace lockstep::app
