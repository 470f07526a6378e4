#include <algorithm>
#include <map>

#include "engine/planner/planner.h"

namespace lockstep::planner {

std::vector<Traffic> messageTraffic(const plan::Plan& plan) {
  std::map<std::pair<int, int>, Traffic> links;
  for (int rank = 0; rank < plan.mesh.size(); ++rank) {
    for (const plan::ScheduleEntry& entry : plan.entriesOf(rank)) {
      for (const plan::Step& step : plan.find(entry.program, rank)->steps) {
        if (!plan::isSend(step)) continue;
        const plan::Peers peers = plan::peersOf(step, entry.copy);
        const std::vector<int> group = plan.mesh.group(rank, step.axis);
        for (int peer = peers.first; peer < peers.first + peers.count; ++peer) {
          const int to = group[static_cast<std::size_t>(peer)];
          Traffic& link = links[{rank, to}];
          link.from = rank;
          link.to = to;
          link.bytes += step.bytes / peers.count;
          link.atMost = link.atMost || step.op == ir::Op::kSendRows;
        }
      }
    }
  }
  std::vector<Traffic> out;
  for (const auto& [ranks, link] : links) out.push_back(link);
  return out;
}

ServedTables servedTables(const plan::Plan& plan, int worker) {
  ServedTables out;
  for (const plan::StateSlot& slot : plan.state) {
    const bool parts = std::any_of(slot.members.begin(), slot.members.end(),
                                   [](const auto& member) { return member.rows > 0; });
    if (parts && slot.role == plan::StateRole::kParameters) out.tableBytes += slot.type.bytes();
  }
  for (const plan::ScheduleEntry& entry : plan.entriesOf(worker)) {
    const plan::Body& body = *plan.find(entry.program, worker);
    for (const plan::Step& step : body.steps) {
      const bool received = step.op == ir::Op::kRecvRows;
      if (!received && step.op != ir::Op::kSendRows) continue;
      out.exchangedBytes += step.bytes;
      if (received) out.rows += plan::payload(body, step).shape[0];
    }
  }
  return out;
}

}  // namespace lockstep::planner
