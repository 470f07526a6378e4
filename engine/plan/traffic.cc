#include "engine/plan/traffic.h"

#include <algorithm>
#include <map>

#include "engine/plan/all_reduce.h"
#include "engine/plan/sent_bytes.h"

namespace lockstep::plan {
namespace {

class Links {
 public:
  void operator()(int from, int to, std::int64_t bytes, bool atMost) {
    if (from == to || bytes == 0) return;
    Traffic& link = links_[{from, to}];
    link.from = from;
    link.to = to;
    link.bytes += bytes;
    link.atMost = link.atMost || atMost;
  }
  std::vector<Traffic> sorted() const {
    std::vector<Traffic> out;
    for (const auto& [ranks, link] : links_) out.push_back(link);
    return out;
  }

 private:
  std::map<std::pair<int, int>, Traffic> links_;
};

// f(rank, entry, body, step) with every step of a training step.
template <typename F>
void forSteps(const Plan& plan, F f) {
  for (int rank = 0; rank < plan.mesh.size(); ++rank) {
    for (const ScheduleEntry& entry : plan.entriesOf(rank)) {
      const Body& body = *plan.find(entry.program, rank);
      for (const Step& step : body.steps) f(rank, entry, body, step);
    }
  }
}

// Both call add(from, to, bytes, atMost) for what the rank sends to each rank, itself included.
template <typename Add>
void addMessage(const Plan& plan, int rank, const ScheduleEntry& entry, const Step& step,
                Add&& add) {
  if (!isSend(step)) return;
  const Peers peers = peersOf(step, entry.copy);
  const std::vector<int> group = plan.mesh.group(rank, step.axis);
  for (int peer = peers.first; peer < peers.first + peers.count; ++peer)
    add(rank, group[static_cast<std::size_t>(peer)], step.bytes / peers.count,
        step.op == ir::Op::kSendRows);
}

template <typename Add>
void addCollective(const Plan& plan, int rank, const Body& body, const Step& step, Add&& add) {
  const std::vector<int> group = plan.mesh.group(rank, step.axis);
  const auto size = static_cast<int>(group.size());
  const auto at = static_cast<int>(std::find(group.begin(), group.end(), rank) - group.begin());
  const ir::TensorType& type = payload(body, step);
  std::int64_t toEach = 0;  // to each of the others
  switch (step.op) {
    case ir::Op::kAllReduce: {
      const auto how = ir::algorithmFromName(ir::textAttr(step.attrs, "algorithm", "direct"));
      const auto width = static_cast<std::int64_t>(sizeOf(type.dtype));
      for (const Exchange& exchange : exchanges(how.value_or(ir::Algorithm::kDirect), at, size,
                                                type.count(), ir::listAttr(step.attrs, "hosts"))) {
        if (exchange.to >= 0)
          add(rank, group[static_cast<std::size_t>(exchange.to)],
              (exchange.sent.end - exchange.sent.begin) * width, false);
      }
      if (how.value_or(ir::Algorithm::kDirect) != ir::Algorithm::kDirect) return;
      toEach = 2 * type.bytes() / size;
      break;
    }
    case ir::Op::kReduceScatter:
    case ir::Op::kAllToAll:
      toEach = type.bytes() / size;
      break;
    case ir::Op::kAllGather:
      toEach = type.bytes();
      break;
    case ir::Op::kBroadcast:
      toEach = ir::intAttr(step.attrs, "root") == at ? type.bytes() : 0;
      break;
    default:
      break;
  }
  for (const int peer : group) add(rank, peer, toEach, false);
}

template <typename Add>
void addSent(const Plan& plan, int rank, const ScheduleEntry& entry, const Body& body,
             const Step& step, Add&& add) {
  if (isMessage(step)) {
    addMessage(plan, rank, entry, step, add);
  } else if (step.kind == StepKind::kCollective) {
    addCollective(plan, rank, body, step, add);
  }
}

}  // namespace

std::vector<Traffic> sentIn(const Plan& plan, int rank, const ScheduleEntry& entry,
                            const Body& body, const Step& step) {
  Links links;
  addSent(plan, rank, entry, body, step, links);
  return links.sorted();
}

std::int64_t sentBytesIn(const Plan& plan, int rank, const ScheduleEntry& entry, const Body& body,
                         const Step& step) {
  std::int64_t out = 0;
  addSent(plan, rank, entry, body, step,
          [&](int from, int to, std::int64_t bytes, bool) { out += from == to ? 0 : bytes; });
  return out;
}

std::vector<Traffic> messageTraffic(const Plan& plan) {
  Links links;
  forSteps(plan, [&](int rank, const ScheduleEntry& entry, const Body&, const Step& step) {
    addMessage(plan, rank, entry, step, links);
  });
  return links.sorted();
}

std::vector<Traffic> stepTraffic(const Plan& plan) {
  Links links;
  forSteps(plan, [&](int rank, const ScheduleEntry& entry, const Body& body, const Step& step) {
    addSent(plan, rank, entry, body, step, links);
  });
  return links.sorted();
}

std::int64_t exchangedBytes(const Plan& plan, int rank) {
  std::int64_t out = 0;
  for (const ScheduleEntry& entry : plan.entriesOf(rank)) {
    const Body& body = *plan.find(entry.program, rank);
    for (const Step& step : body.steps) {
      if (isMessage(step)) {
        out += step.bytes;
      } else if (step.kind == StepKind::kCollective) {
        addCollective(plan, rank, body, step, [&](int from, int to, std::int64_t bytes, bool) {
          out += from == to ? 0 : 2 * bytes;
        });
      }
    }
  }
  return out;
}

ServedTables servedTables(const Plan& plan, int worker) {
  ServedTables out;
  for (const StateSlot& slot : plan.state) {
    const bool parts = std::any_of(slot.members.begin(), slot.members.end(),
                                   [](const auto& member) { return member.rows > 0; });
    if (parts && slot.role == StateRole::kParameters) out.tableBytes += slot.type.bytes();
  }
  for (const ScheduleEntry& entry : plan.entriesOf(worker)) {
    const Body& body = *plan.find(entry.program, worker);
    for (const Step& step : body.steps) {
      const bool received = step.op == ir::Op::kRecvRows;
      if (!received && step.op != ir::Op::kSendRows) continue;
      out.exchangedBytes += step.bytes;
      if (received) out.rows += payload(body, step).shape[0];
    }
  }
  return out;
}

}  // namespace lockstep::plan
