#include "engine/plan/message_order.h"

#include <algorithm>
#include <limits>
#include <map>

#include "engine/plan/order.h"

namespace lockstep::plan {
namespace {

using Message = MessageGroup::Message;
constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

// Runs one rank of each stage in virtual time; the ranks of a stage run in lockstep. A compute step
// and a collective each take one unit of time; a message arrives at once.
class VirtualRun {
 public:
  struct Rendezvous {  // of one rank
    Message at;
    bool sends = false;
  };

  VirtualRun(const Plan& plan, const std::vector<std::vector<ScheduleEntry>>& schedule)
      : plan_(plan) {
    for (int c = 0; c < plan.mesh.axisSize(plan.mesh.messageAxis()); ++c) {
      RankCursor cursor;
      while (plan.stageOf(cursor.rank) != c) ++cursor.rank;
      cursor.entries = &schedule[static_cast<std::size_t>(c)];
      cursors_.push_back(std::move(cursor));
    }
  }

  // Returns the rendezvous of the rank at a coordinate, in order.
  Result<std::vector<Rendezvous>> of(int coordinate) {
    for (;;) {
      std::size_t next = cursors_.size();
      std::int64_t least = kNever;
      // repeats until no rank has sent what another waits for
      for (std::size_t before = progress_ + 1; before != progress_;) {
        before = progress_;
        next = cursors_.size();
        least = kNever;
        for (std::size_t p = 0; p < cursors_.size(); ++p) {
          LOCKSTEP_ASSIGN(const std::int64_t time, timeOf(p));
          if (time < least) {
            least = time;
            next = p;
          }
        }
      }
      if (next == cursors_.size()) break;
      move(next, least);
    }
    for (const RankCursor& cursor : cursors_)
      if (cursor.entry < cursor.entries->size())
        return makeError(Code::kFailedPrecondition, "rank {} waits forever in program {}",
                         cursor.rank, (*cursor.entries)[cursor.entry].program);
    return std::move(cursors_[static_cast<std::size_t>(coordinate)].rendezvous);
  }

 private:
  struct Sent {
    Message at;
    std::int64_t posted = 0, received = kNever;
  };
  struct RankCursor {
    int rank = 0;
    const std::vector<ScheduleEntry>* entries = nullptr;
    std::size_t entry = 0;
    StepId step = 0;
    std::int64_t clock = 0;
    bool begun = false, arrived = false;
    // by program and copy: peer, message
    std::map<std::pair<std::string, int>, std::vector<std::pair<int, std::size_t>>> sent{};
    std::vector<Rendezvous> rendezvous{};
  };

  const ScheduleEntry& entryOf(const RankCursor& cursor) const {
    return (*cursor.entries)[cursor.entry];
  }
  const Body& bodyOf(const RankCursor& cursor) const {
    return *plan_.find(entryOf(cursor).program, cursor.rank);
  }
  std::vector<Sent>& channel(int from, int to) { return channels_[{from, to}]; }
  std::size_t& receivedOf(int from, int to) { return received_[{from, to}]; }

  // Advances the rank until it blocks and returns the time at which it continues; kNever where
  // that depends on other ranks.
  Result<std::int64_t> timeOf(std::size_t p) {
    RankCursor& cursor = cursors_[p];
    const int self = static_cast<int>(p);
    if (cursor.arrived) return kNever;
    while (cursor.entry < cursor.entries->size()) {
      const ScheduleEntry& entry = entryOf(cursor);
      if (!cursor.begun) {
        std::int64_t time = cursor.clock;
        for (const auto& [peer, message] : cursor.sent[{entry.program, entry.copy}])
          time = std::max(time, channel(self, peer)[message].received);
        if (time == kNever) return kNever;
        cursor.clock = time;
        cursor.sent[{entry.program, entry.copy}].clear();
        cursor.begun = true;
      }
      const Body& body = bodyOf(cursor);
      for (; cursor.step < static_cast<StepId>(body.steps.size()); ++cursor.step) {
        const Step& step = body.steps[static_cast<std::size_t>(cursor.step)];
        const Message at{static_cast<int>(cursor.entry), cursor.step};
        if (step.kind == StepKind::kCompute) {
          ++cursor.clock;
        } else if (step.axis != plan_.mesh.messageAxis()) {
          cursor.rendezvous.push_back({at, false});
          ++cursor.clock;
        } else if (step.op == ir::Op::kSend) {
          if (rootBufferOf(body, step.inputs[0]).kind != BufferKind::kState)
            return makeError(Code::kFailedPrecondition,
                             "step {} sends what does not outlive its program", step.name);
          const int peer = peersOf(step, entry.copy).first;
          cursor.sent[{entry.program, entry.copy}].emplace_back(peer, channel(self, peer).size());
          channel(self, peer).push_back({at, cursor.clock});
          ++progress_;
        } else if (step.op == ir::Op::kRecv) {
          const int peer = peersOf(step, entry.copy).first;
          const std::vector<Sent>& from = channel(peer, self);
          const std::size_t next = receivedOf(peer, self);
          return next == from.size() ? kNever : std::max(cursor.clock, from[next].posted);
        } else if (isMessage(step)) {
          return makeError(Code::kFailedPrecondition, "step {} is no message between two ranks",
                           step.name);
        } else {
          return arrival(self);
        }
      }
      cursor.step = 0;
      cursor.begun = false;
      ++cursor.entry;
    }
    return kNever;
  }

  // Returns when the rank enters a collective of all ranks: after all it has sent is received.
  std::int64_t arrival(int self) {
    std::int64_t time = cursors_[static_cast<std::size_t>(self)].clock;
    for (const auto& [pair, messages] : channels_)
      for (const Sent& one : messages)
        if (pair.first == self) time = std::max(time, one.received);
    return time;
  }

  void move(std::size_t p, std::int64_t time) {
    RankCursor& cursor = cursors_[p];
    const Message at{static_cast<int>(cursor.entry), cursor.step};
    const Step& step = bodyOf(cursor).steps[static_cast<std::size_t>(cursor.step)];
    cursor.clock = time;
    if (step.op == ir::Op::kRecv) {
      const int self = static_cast<int>(p), peer = peersOf(step, entryOf(cursor).copy).first;
      Sent& message = channel(peer, self)[receivedOf(peer, self)++];
      message.received = time;
      cursors_[static_cast<std::size_t>(peer)].rendezvous.push_back({message.at, true});
      cursor.rendezvous.push_back({at, false});
      ++cursor.step;
      return;
    }
    cursor.arrived = true;
    if (std::any_of(cursors_.begin(), cursors_.end(),
                    [](const RankCursor& one) { return !one.arrived; }))
      return;
    for (RankCursor& one : cursors_) {
      one.rendezvous.push_back({{static_cast<int>(one.entry), one.step}, false});
      one.clock = time + 1;
      one.arrived = false;
      ++one.step;
    }
  }

  const Plan& plan_;
  std::vector<RankCursor> cursors_;                            // by coordinate
  std::map<std::pair<int, int>, std::vector<Sent>> channels_;  // from, to
  std::map<std::pair<int, int>, std::size_t> received_;
  std::size_t progress_ = 0;  // number of messages sent
};

}  // namespace

Result<std::vector<std::vector<MessageGroup>>> messageOrder(
    const Plan& plan, const std::vector<std::vector<ScheduleEntry>>& schedule, int rank) {
  const int stage = plan.stageOf(rank);
  const std::vector<ScheduleEntry>& entries = schedule[static_cast<std::size_t>(stage)];
  LOCKSTEP_ASSIGN(
      const auto rendezvous,
      VirtualRun(plan, schedule).of(plan.mesh.coordinate(rank, plan.mesh.messageAxis())));
  std::vector<std::vector<MessageGroup>> out(entries.size());
  std::size_t next = 0;  // of the rendezvous
  for (std::size_t p = 0; p < entries.size(); ++p) {
    const Body& body = *plan.find(entries[p].program, rank);
    const int index = static_cast<int>(p);
    const auto steps = static_cast<StepId>(body.steps.size());
    // Returns the group issued before step `before`: the last one, where it receives all steps in
    // between.
    const auto groupAt = [&](StepId before) -> MessageGroup& {
      if (!out[p].empty()) {
        MessageGroup& last = out[p].back();
        const auto received = std::count_if(
            last.messages.begin(), last.messages.end(),
            [&](const Message& one) { return one.entry == index && one.step >= last.before; });
        if (last.before + received == before) return last;
      }
      return out[p].emplace_back(MessageGroup{before, {}, false});
    };
    // Issues the sends up to step `before` in the plan's order.
    const auto issueSends = [&](StepId before) {
      for (; next < rendezvous.size() && rendezvous[next].sends; ++next) {
        const Message& message = rendezvous[next].at;
        if (std::pair(message.entry, message.step) >= std::pair(index, before)) break;
        MessageGroup& group = groupAt(before);
        group.messages.push_back(message);
        const ScheduleEntry& of = entries[static_cast<std::size_t>(message.entry)];
        if (message.entry < index && of.program == entries[p].program && of.copy == entries[p].copy)
          group.awaited = true;
      }
    };
    issueSends(0);
    for (StepId s = 0; s < steps; ++s) {
      const Step& step = body.steps[static_cast<std::size_t>(s)];
      if (step.kind == StepKind::kCompute || step.op == ir::Op::kSend) continue;
      issueSends(s);
      LOCKSTEP_CHECK(next < rendezvous.size() && rendezvous[next].at == (Message{index, s}));
      if (step.op == ir::Op::kRecv) {
        MessageGroup& group = groupAt(s);
        group.messages.push_back(rendezvous[next].at);
        group.awaited = true;
      }
      ++next;
    }
    if (p + 1 == entries.size()) issueSends(steps);
  }
  LOCKSTEP_CHECK(next == rendezvous.size());
  return out;
}

}  // namespace lockstep::plan
