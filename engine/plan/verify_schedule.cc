#include "engine/plan/verify_schedule.h"

#include <map>
#include <set>

#include "engine/plan/order.h"

namespace lockstep::plan {
namespace {

// A byte range of one state copy.
struct Memory {
  std::string_view state;  // "": not state
  int copy = 0;
  std::int64_t begin = 0, end = 0;
  bool overlaps(const Memory& other) const {
    return !state.empty() && state == other.state && copy == other.copy && begin < other.end &&
           other.begin < end;
  }
};

// Simulates all ranks that exchange messages, one rank of each stage in a pipeline, since the ranks
// of a stage run in lockstep. Messages of a channel arrive in order; an entry starts once the
// messages that the previous entry of the same program and copy sent are received; a collective of
// all ranks waits for all of them and for the messages they sent. Memory being sent is not written
// before its sender knows that it is received: because it waited for that, or because it received a
// message that the peer sent afterwards.
class ScheduleRun {
 public:
  ScheduleRun(const Plan& plan, const std::vector<std::vector<ScheduleEntry>>& schedule)
      : plan_(plan) {
    for (const StateSlot& slot : plan.state) slots_.emplace(slot.name, slot.copies);
    const bool all = plan.mesh.servers() > 0;
    for (int c = 0; c < plan.mesh.axisSize(plan.mesh.messageAxis()); ++c) {
      RankCursor cursor;
      while (!all && plan.stageOf(cursor.rank) != c) ++cursor.rank;
      if (all) cursor.rank = c;
      cursor.entries = schedule[static_cast<std::size_t>(plan.stageOf(cursor.rank))];
      cursors_.push_back(std::move(cursor));
    }
  }

  Status run() {
    for (std::size_t before = 1; before != moves_;) {
      before = moves_;
      for (std::size_t p = 0; p < cursors_.size(); ++p) LOCKSTEP_TRY(advance(p));
    }
    for (const RankCursor& cursor : cursors_) {
      if (cursor.entry == cursor.entries.size()) continue;
      const ScheduleEntry& entry = cursor.entries[cursor.entry];
      const Body& body = *plan_.find(entry.program, cursor.rank);
      return broken(fmt::format("rank {} waits forever in program {} of micro-batch {}, at {}",
                                cursor.rank, entry.program, entry.micro,
                                cursor.begun ? body.steps[cursor.step].name : "its beginning"));
    }
    for (const auto& [pair, messages] : messages_) {
      if (messages.received == messages.sent.size()) continue;
      return broken(fmt::format("rank {} sends rank {} what it does not receive",
                                cursors_[static_cast<std::size_t>(pair.first)].rank,
                                cursors_[static_cast<std::size_t>(pair.second)].rank));
    }
    return {};
  }

 private:
  struct RankCursor {
    std::vector<ScheduleEntry> entries{};
    int rank = 0;
    std::size_t entry = 0, step = 0;
    int peers = 0;  // of the current step: messages received so far
    bool begun = false;
    bool arrived = false;  // at a collective of all ranks
    // By program and copy: the messages sent to each peer up to the end of the last entry.
    std::map<std::pair<std::string, int>, std::map<int, std::size_t>> sent{};
    // Memory that may still be in transmission, as far as this rank knows.
    struct Lent {
      int peer = 0;
      std::size_t message = 0;  // index among those to the peer
      Memory memory;
    };
    std::vector<Lent> lent{};
  };
  struct Messages {
    struct Message {
      std::string name;
      ir::TensorType type;
      int micro = 0;
      std::size_t known = 0;  // messages that the sender had received from the receiver
      bool is(const Message& other) const {
        return name == other.name && type == other.type && micro == other.micro;
      }
    };
    std::vector<Message> sent;
    std::size_t received = 0;
  };
  void returned(RankCursor& cursor, int peer, std::size_t count) const {
    std::erase_if(cursor.lent, [&](const typename RankCursor::Lent& lent) {
      return lent.peer == peer && lent.message < count;
    });
  }

  // Advances the rank until it blocks.
  Status advance(std::size_t p) {
    RankCursor& cursor = cursors_[p];
    for (; cursor.entry < cursor.entries.size(); ++cursor.entry, ++moves_) {
      const ScheduleEntry& entry = cursor.entries[cursor.entry];
      if (!cursor.begun) {
        for (const auto& [peer, count] : cursor.sent[{entry.program, entry.copy}]) {
          if (messages_[{static_cast<int>(p), peer}].received < count) return {};
        }
        for (const auto& [peer, count] : cursor.sent[{entry.program, entry.copy}]) {
          returned(cursor, peer, count);
        }
        cursor.begun = true;
      }
      LOCKSTEP_ASSIGN(const bool ended, advance(p, entry));
      if (!ended) return {};
      cursor.step = 0;
      cursor.begun = false;
    }
    return {};
  }
  // Returns whether the rank reached the end of the entry.
  Result<bool> advance(std::size_t p, const ScheduleEntry& entry) {
    RankCursor& cursor = cursors_[p];
    const int self = static_cast<int>(p);
    const Body* body = plan_.find(entry.program, cursor.rank);
    for (; cursor.step < body->steps.size(); ++cursor.step, ++moves_) {
      const Step& step = body->steps[cursor.step];
      for (const BufferId output : step.outputs) {
        const Memory written = memoryOf(*body, output, entry.copy);
        for (const auto& lent : cursor.lent) {
          if (!written.overlaps(lent.memory)) continue;
          return Error(broken(fmt::format(
              "program {} of micro-batch {}: step {} {} writes what rank {} may still be sending",
              entry.program, entry.micro, cursor.step, step.name, cursor.rank)));
        }
      }
      if (step.kind != StepKind::kCollective || step.axis != plan_.mesh.messageAxis()) continue;
      if (!isMessage(step)) {
        LOCKSTEP_ASSIGN(const bool met, rendezvous(p, *body, step));
        if (!met) return false;
        continue;
      }
      Messages::Message message{step.name, messageType(*body, step), entry.micro};
      const Peers peers = peersOf(step, entry.copy);
      if (isSend(step)) {
        for (int peer = peers.first; peer < peers.first + peers.count; ++peer) {
          auto& sent = messages_[{self, peer}].sent;
          message.known = messages_[{peer, self}].received;
          cursor.lent.push_back({peer, sent.size(), memoryOf(*body, step.inputs[0], entry.copy)});
          sent.push_back(message);
          cursor.sent[{entry.program, entry.copy}][peer] = sent.size();
        }
        continue;
      }
      for (; cursor.peers < peers.count; ++cursor.peers, ++moves_) {
        const int peer = peers.first + cursor.peers;
        Messages& messages = messages_[{peer, self}];
        if (messages.received == messages.sent.size()) return false;
        const auto& next = messages.sent[messages.received];
        if (!next.is(message)) {
          return Error(broken(fmt::format(
              "rank {} expects {} of micro-batch {} of rank {}, which sends {} of micro-batch {}",
              cursor.rank, message.name, entry.micro, cursors_[static_cast<std::size_t>(peer)].rank,
              next.name, next.micro)));
        }
        returned(cursor, peer, next.known);
        ++messages.received;
      }
      cursor.peers = 0;
    }
    return true;
  }
  // Returns whether the collective completed: the last rank to arrive releases the others. A rank
  // arrives once all it has sent is received.
  Result<bool> rendezvous(std::size_t p, const Body& body, const Step& step) {
    if (cursors_[p].arrived) return false;
    const std::string mine =
        fmt::format("{} {} {} {}", ir::info(step.op).name, step.name, payload(body, step).text(),
                    ir::textAttr(step.attrs, "op", ""));
    if (waiting_ == 0) {
      awaited_ = mine;
    } else if (mine != awaited_) {
      return Error(broken(
          fmt::format("rank {} runs {} where others run {}", cursors_[p].rank, mine, awaited_)));
    }
    for (const auto& [pair, messages] : messages_) {
      if (pair.first == static_cast<int>(p) && messages.received < messages.sent.size())
        return false;
    }
    cursors_[p].arrived = true;
    ++moves_;
    if (++waiting_ < cursors_.size()) return false;
    waiting_ = 0;
    for (RankCursor& cursor : cursors_) {
      cursor.arrived = false;
      cursor.lent.clear();
      if (&cursor != &cursors_[p]) ++cursor.step;
    }
    return true;
  }

  Memory memoryOf(const Body& body, BufferId id, int copy) const {
    const Buffer& buffer = body.buffers[static_cast<std::size_t>(id)];
    const Buffer& root = rootBufferOf(body, id);
    if (root.kind != BufferKind::kState) return {};
    const auto slot = slots_.find(root.name);
    const std::int64_t begin = buffer.base >= 0 ? buffer.offset : 0;
    // Along an axis: the range of all ranks' views.
    const std::int64_t end = buffer.axis.empty() ? begin + buffer.type.bytes() : root.type.bytes();
    return {slot->first, copy % slot->second, begin, end};
  }

  const Plan& plan_;
  std::map<std::string_view, int> slots_;             // the copies of each state
  std::vector<RankCursor> cursors_;                   // by coordinate
  std::map<std::pair<int, int>, Messages> messages_;  // from, to
  std::size_t waiting_ = 0, moves_ = 0;
  std::string awaited_;  // the collective that the waiting ranks run
};

// Checks that stashed state is written before it is read, by an entry of the same micro-batch.
Status verifyCopies(const Plan& plan, int rank, const std::vector<ScheduleEntry>& entries) {
  std::map<std::string_view, const StateSlot*> slots;
  for (const StateSlot& slot : plan.state) slots.emplace(slot.name, &slot);
  int copies =
      1;  // sent state has the most copies, so that entries of one copy send from one memory
  for (const StateSlot& slot : plan.state)
    if (slot.stage == plan.stageOf(rank)) copies = std::max(copies, slot.copies);
  std::map<std::pair<std::string_view, int>, int> written;  // state and copy: the micro-batch
  for (const ScheduleEntry& entry : entries) {
    const Body& body = *plan.find(entry.program, rank);
    const auto copied = [&](BufferId id) -> const StateSlot* {
      const Buffer& root = rootBufferOf(body, id);
      if (root.kind != BufferKind::kState) return nullptr;
      const StateSlot* slot = slots.at(root.name);
      return slot->copies > 1 || slot->role == StateRole::kStash ? slot : nullptr;
    };
    if (!plan.isAsynchronous() && entry.copy >= copies) {
      return broken(
          fmt::format("program {} of micro-batch {} works on copy {} of the {} of its stage",
                      entry.program, entry.micro, entry.copy, copies));
    }
    for (const Step& step : body.steps) {
      for (const BufferId id : step.inputs) {
        const StateSlot* slot = copied(id);
        if (slot == nullptr) continue;
        const auto last = written.find({slot->name, entry.copy % slot->copies});
        if (last == written.end() || last->second != entry.micro) {
          return broken(fmt::format("program {} of micro-batch {} reads {} before it was written",
                                    entry.program, entry.micro, slot->name));
        }
      }
      for (const BufferId id : step.outputs) {
        const StateSlot* slot = copied(id);
        if (slot == nullptr) continue;
        written[{slot->name, entry.copy % slot->copies}] = entry.micro;
      }
    }
  }
  return {};
}

Status verifyEntries(const Plan& plan, const std::vector<std::vector<ScheduleEntry>>& schedule) {
  std::set<std::vector<int>> checked;  // the stage and the entries' bodies
  for (int rank = 0; rank < plan.mesh.size(); ++rank) {
    const std::vector<ScheduleEntry>& entries =
        schedule[static_cast<std::size_t>(plan.stageOf(rank))];
    std::vector<int> bodies{plan.stageOf(rank)};
    for (const ScheduleEntry& entry : entries)
      bodies.push_back(plan.find(entry.program)->bodyOfRank[static_cast<std::size_t>(rank)]);
    if (checked.insert(std::move(bodies)).second) LOCKSTEP_TRY(verifyCopies(plan, rank, entries));
  }
  return plan.mesh.stages() > 1 ? ScheduleRun(plan, schedule).run() : Status();
}

}  // namespace

Status verifySchedule(const Plan& plan) {
  const auto stages = static_cast<std::size_t>(plan.mesh.stages());
  if (plan.schedule.size() != stages) {
    return broken(fmt::format("the plan has schedules of {} stages, the mesh {}",
                              plan.schedule.size(), stages));
  }
  for (const auto& entries : plan.schedule) {
    for (const ScheduleEntry& entry : entries) {
      if (plan.find(entry.program) == nullptr) {
        return broken(
            fmt::format("the schedule runs {}, which the plan does not have", entry.program));
      }
      if (entry.micro < 0 || entry.micro >= plan.microBatches || entry.copy < 0) {
        return broken(
            fmt::format("the schedule runs micro-batch {} of {}", entry.micro, plan.microBatches));
      }
      if (plan.isAsynchronous() && entry.copy >= plan.mesh.workers()) {
        return broken(
            fmt::format("a server session with worker {} of {}", entry.copy, plan.mesh.workers()));
      }
    }
  }
  LOCKSTEP_TRY(verifyEntries(plan, plan.schedule));
  if (plan.uncompressedWarmupSteps > 0)
    LOCKSTEP_TRY(verifyEntries(plan, plan.uncompressedSchedule()));
  if (plan.find("evaluate") == nullptr) return {};
  const std::vector<ScheduleEntry> evaluation{{"evaluate", 0, 0}, {"evaluate", 0, 0}};
  return verifyEntries(plan, std::vector<std::vector<ScheduleEntry>>(stages, evaluation));
}

}  // namespace lockstep::plan
