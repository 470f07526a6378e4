#include "engine/plan/verify_schedule.h"

#include <map>
#include <set>

namespace lockstep::plan {
namespace {

// A piece of a rank's state.
struct Memory {
  std::string_view state;  // "" of anything else
  int copy = 0;
  std::int64_t begin = 0, end = 0;
  bool overlaps(const Memory& other) const {
    return !state.empty() && state == other.state && copy == other.copy && begin < other.end &&
           other.begin < end;
  }
};

// Plays all ranks that send each other messages at once; of a pipeline's stage one rank, since the
// ranks of a stage are in step anyway. A message is received in the order in which its sender
// sends; a play waits until what an earlier one of the same program and copies sent has been
// received; a collective of all waits for all, and for what was sent. Nothing else waits. What is
// sent is not written before it has been received, which its sender knows when it waited for that,
// or when it has received what the other sent afterwards.
class MessagePlay {
 public:
  MessagePlay(const Plan& plan, const std::vector<std::vector<Play>>& schedule) : plan_(plan) {
    for (const StateSlot& slot : plan.state) slots_.emplace(slot.name, slot.copies);
    const bool all = plan.mesh.servers() > 0;
    for (int c = 0; c < plan.mesh.axisSize(plan.mesh.messageAxis()); ++c) {
      Player player;
      while (!all && plan.stageOf(player.rank) != c) ++player.rank;
      if (all) player.rank = c;
      player.plays = schedule[static_cast<std::size_t>(plan.stageOf(player.rank))];
      players_.push_back(std::move(player));
    }
  }

  Status run() {
    for (std::size_t before = 1; before != moves_;) {
      before = moves_;
      for (std::size_t p = 0; p < players_.size(); ++p) LOCKSTEP_TRY(advance(p));
    }
    for (const Player& player : players_) {
      if (player.play == player.plays.size()) continue;
      const Play& play = player.plays[player.play];
      const Body& body = *plan_.find(play.program, player.rank);
      return broken(fmt::format("rank {} waits for ever in program {} of micro-batch {}, at {}",
                                player.rank, play.program, play.micro,
                                player.begun ? body.steps[player.step].name : "its beginning"));
    }
    for (const auto& [pair, messages] : messages_) {
      if (messages.received == messages.sent.size()) continue;
      return broken(fmt::format("rank {} sends rank {} what it does not receive",
                                players_[static_cast<std::size_t>(pair.first)].rank,
                                players_[static_cast<std::size_t>(pair.second)].rank));
    }
    return {};
  }

 private:
  struct Player {
    std::vector<Play> plays{};
    int rank = 0;
    std::size_t play = 0, step = 0;
    int peers = 0;  // of the step: from how many it has received
    bool begun = false;
    bool arrived = false;  // at a collective of all
    // What the last play of a program and copy sent: the peer, and how many it had been sent by
    // then.
    std::map<std::pair<std::string, int>, std::map<int, std::size_t>> sent{};
    // Memory that is being sent, as far as this rank knows.
    struct Lent {
      int peer = 0;
      std::size_t message = 0;  // among those to the peer
      Memory memory;
    };
    std::vector<Lent> lent{};
  };
  struct Messages {
    struct Message {
      std::string name;
      ir::TensorType type;
      int micro = 0;
      std::size_t known = 0;  // how many messages of the receiver its sender had received
      bool is(const Message& other) const {
        return name == other.name && type == other.type && micro == other.micro;
      }
    };
    std::vector<Message> sent;
    std::size_t received = 0;
  };
  void returned(Player& player, int peer, std::size_t count) const {
    std::erase_if(player.lent, [&](const typename Player::Lent& lent) {
      return lent.peer == peer && lent.message < count;
    });
  }

  // As far as it comes.
  Status advance(std::size_t p) {
    Player& player = players_[p];
    for (; player.play < player.plays.size(); ++player.play, ++moves_) {
      const Play& play = player.plays[player.play];
      if (!player.begun) {
        for (const auto& [peer, count] : player.sent[{play.program, play.copy}]) {
          if (messages_[{static_cast<int>(p), peer}].received < count) return {};
        }
        for (const auto& [peer, count] : player.sent[{play.program, play.copy}]) {
          returned(player, peer, count);
        }
        player.begun = true;
      }
      LOCKSTEP_ASSIGN(const bool ended, advance(p, play));
      if (!ended) return {};
      player.step = 0;
      player.begun = false;
    }
    return {};
  }
  // Whether it came to the end of the play.
  Result<bool> advance(std::size_t p, const Play& play) {
    Player& player = players_[p];
    const int self = static_cast<int>(p);
    const Body* body = plan_.find(play.program, player.rank);
    for (; player.step < body->steps.size(); ++player.step, ++moves_) {
      const Step& step = body->steps[player.step];
      for (const BufferId output : step.outputs) {
        const Memory written = memoryOf(*body, output, play.copy);
        for (const auto& lent : player.lent) {
          if (!written.overlaps(lent.memory)) continue;
          return Error(broken(fmt::format(
              "program {} of micro-batch {}: step {} {} writes what rank {} may still be sending",
              play.program, play.micro, player.step, step.name, player.rank)));
        }
      }
      if (step.kind != StepKind::kCollective || step.axis != plan_.mesh.messageAxis()) continue;
      if (!isMessage(step)) {
        LOCKSTEP_ASSIGN(const bool met, meets(p, *body, step));
        if (!met) return false;
        continue;
      }
      Messages::Message message{step.name, messageType(*body, step), play.micro};
      const Peers peers = peersOf(step, play.copy);
      if (isSend(step)) {
        for (int peer = peers.first; peer < peers.first + peers.count; ++peer) {
          auto& sent = messages_[{self, peer}].sent;
          message.known = messages_[{peer, self}].received;
          player.lent.push_back({peer, sent.size(), memoryOf(*body, step.inputs[0], play.copy)});
          sent.push_back(message);
          player.sent[{play.program, play.copy}][peer] = sent.size();
        }
        continue;
      }
      for (; player.peers < peers.count; ++player.peers, ++moves_) {
        const int peer = peers.first + player.peers;
        Messages& messages = messages_[{peer, self}];
        if (messages.received == messages.sent.size()) return false;
        const auto& next = messages.sent[messages.received];
        if (!next.is(message)) {
          return Error(broken(fmt::format(
              "rank {} expects {} of micro-batch {} of rank {}, which sends {} of micro-batch {}",
              player.rank, message.name, play.micro, players_[static_cast<std::size_t>(peer)].rank,
              next.name, next.micro)));
        }
        returned(player, peer, next.known);
        ++messages.received;
      }
      player.peers = 0;
    }
    return true;
  }
  // The last to arrive lets all pass. Before a rank arrives, what it has sent is received.
  Result<bool> meets(std::size_t p, const Body& body, const Step& step) {
    if (players_[p].arrived) return false;
    const std::string mine =
        fmt::format("{} {} {} {}", ir::info(step.op).name, step.name, payload(body, step).text(),
                    ir::textAttr(step.attrs, "op", ""));
    if (waiting_ == 0) {
      meeting_ = mine;
    } else if (mine != meeting_) {
      return Error(broken(
          fmt::format("rank {} plays {} where others play {}", players_[p].rank, mine, meeting_)));
    }
    for (const auto& [pair, messages] : messages_) {
      if (pair.first == static_cast<int>(p) && messages.received < messages.sent.size())
        return false;
    }
    players_[p].arrived = true;
    ++moves_;
    if (++waiting_ < players_.size()) return false;
    waiting_ = 0;
    for (Player& player : players_) {
      player.arrived = false;
      player.lent.clear();
      if (&player != &players_[p]) ++player.step;
    }
    return true;
  }

  Memory memoryOf(const Body& body, BufferId id, int copy) const {
    const Buffer& buffer = body.buffers[static_cast<std::size_t>(id)];
    const Buffer& root =
        buffer.base >= 0 ? body.buffers[static_cast<std::size_t>(buffer.base)] : buffer;
    if (root.kind != BufferKind::kState) return {};
    const auto slot = slots_.find(root.name);
    const std::int64_t begin = buffer.base >= 0 ? buffer.offset : 0;
    // Along an axis: wherever some rank's view may lie.
    const std::int64_t end = buffer.axis.empty() ? begin + buffer.type.bytes() : root.type.bytes();
    return {slot->first, copy % slot->second, begin, end};
  }

  const Plan& plan_;
  std::map<std::string_view, int> slots_;             // the copies of each state
  std::vector<Player> players_;                       // by coordinate
  std::map<std::pair<int, int>, Messages> messages_;  // from, to
  std::size_t waiting_ = 0, moves_ = 0;
  std::string meeting_;  // what those who wait play
};

// What plays leave for later ones is there when it is read, of the same micro-batch.
Status verifyCopies(const Plan& plan, int rank, const std::vector<Play>& plays) {
  std::map<std::string_view, const StateSlot*> slots;
  for (const StateSlot& slot : plan.state) slots.emplace(slot.name, &slot);
  int copies = 1;  // what is sent has most, so that plays of one copy send from one memory
  for (const StateSlot& slot : plan.state)
    if (slot.stage == plan.stageOf(rank)) copies = std::max(copies, slot.copies);
  std::map<std::pair<std::string_view, int>, int> written;  // state and copy: the micro-batch
  for (const Play& play : plays) {
    const Body& body = *plan.find(play.program, rank);
    const auto copied = [&](BufferId id) -> const StateSlot* {
      const Buffer& buffer = body.buffers[static_cast<std::size_t>(id)];
      const Buffer& root =
          buffer.base >= 0 ? body.buffers[static_cast<std::size_t>(buffer.base)] : buffer;
      if (root.kind != BufferKind::kState) return nullptr;
      const StateSlot* slot = slots.at(root.name);
      return slot->copies > 1 || slot->name.starts_with("carry.") ? slot : nullptr;
    };
    if (plan.staleness == 0 && play.copy >= copies) {
      return broken(
          fmt::format("program {} of micro-batch {} works on copy {} of the {} of its stage",
                      play.program, play.micro, play.copy, copies));
    }
    for (const Step& step : body.steps) {
      for (const BufferId id : step.inputs) {
        const StateSlot* slot = copied(id);
        if (slot == nullptr) continue;
        const auto last = written.find({slot->name, play.copy % slot->copies});
        if (last == written.end() || last->second != play.micro) {
          return broken(fmt::format("program {} of micro-batch {} reads {} before it was written",
                                    play.program, play.micro, slot->name));
        }
      }
      for (const BufferId id : step.outputs) {
        const StateSlot* slot = copied(id);
        if (slot == nullptr) continue;
        written[{slot->name, play.copy % slot->copies}] = play.micro;
      }
    }
  }
  return {};
}

Status verifyPlays(const Plan& plan, const std::vector<std::vector<Play>>& schedule) {
  std::set<std::vector<int>> checked;  // by stage and the bodies of the plays
  for (int rank = 0; rank < plan.mesh.size(); ++rank) {
    const std::vector<Play>& plays = schedule[static_cast<std::size_t>(plan.stageOf(rank))];
    std::vector<int> bodies{plan.stageOf(rank)};
    for (const Play& play : plays)
      bodies.push_back(plan.find(play.program)->bodyOfRank[static_cast<std::size_t>(rank)]);
    if (checked.insert(std::move(bodies)).second) LOCKSTEP_TRY(verifyCopies(plan, rank, plays));
  }
  return plan.mesh.stages() > 1 ? MessagePlay(plan, schedule).run() : Status();
}

}  // namespace

Status verifySchedule(const Plan& plan) {
  const auto stages = static_cast<std::size_t>(plan.mesh.stages());
  if (plan.schedule.size() != stages) {
    return broken(fmt::format("the plan has schedules of {} stages, the mesh {}",
                              plan.schedule.size(), stages));
  }
  for (const auto& plays : plan.schedule) {
    for (const Play& play : plays) {
      if (plan.find(play.program) == nullptr) {
        return broken(
            fmt::format("the schedule plays {}, which the plan does not have", play.program));
      }
      if (play.micro < 0 || play.micro >= plan.microBatches || play.copy < 0) {
        return broken(
            fmt::format("the schedule plays micro-batch {} of {}", play.micro, plan.microBatches));
      }
      if (plan.staleness != 0 && play.copy >= plan.mesh.workers()) {
        return broken(
            fmt::format("a conversation with worker {} of {}", play.copy, plan.mesh.workers()));
      }
    }
  }
  LOCKSTEP_TRY(verifyPlays(plan, plan.schedule));
  if (plan.wholeSteps > 0) LOCKSTEP_TRY(verifyPlays(plan, plan.wholeSchedule()));
  if (plan.find("evaluate") == nullptr) return {};
  const std::vector<Play> evaluation{{"evaluate", 0, 0}, {"evaluate", 0, 0}};
  return verifyPlays(plan, std::vector<std::vector<Play>>(stages, evaluation));
}

}  // namespace lockstep::plan
