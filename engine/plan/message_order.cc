#include "engine/plan/message_order.h"

#include <algorithm>
#include <limits>
#include <map>

namespace lockstep::plan {
namespace {

using Message = MessageGroup::Message;
constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

// Plays one rank of each stage; those of a stage are in step. A compute step takes a unit of time,
// and so does a collective; a message arrives at once.
class Meetings {
 public:
  struct Meeting {  // of one rank
    Message at;
    bool sends = false;
  };

  Meetings(const Plan& plan, const std::vector<std::vector<Play>>& schedule) : plan_(plan) {
    for (int c = 0; c < plan.mesh.axisSize(plan.mesh.messageAxis()); ++c) {
      Player player;
      while (plan.stageOf(player.rank) != c) ++player.rank;
      player.plays = &schedule[static_cast<std::size_t>(c)];
      players_.push_back(std::move(player));
    }
  }

  // What the rank of a coordinate takes part in, in order.
  Result<std::vector<Meeting>> of(int coordinate) {
    for (;;) {
      std::size_t next = players_.size();
      std::int64_t least = kNever;
      // until none has sent another what it waits for
      for (std::size_t before = progress_ + 1; before != progress_;) {
        before = progress_;
        next = players_.size();
        least = kNever;
        for (std::size_t p = 0; p < players_.size(); ++p) {
          LOCKSTEP_ASSIGN(const std::int64_t time, timeOf(p));
          if (time < least) {
            least = time;
            next = p;
          }
        }
      }
      if (next == players_.size()) break;
      move(next, least);
    }
    for (const Player& player : players_)
      if (player.play < player.plays->size())
        return makeError(Code::kFailedPrecondition, "rank {} waits for ever in a play of {}",
                         player.rank, (*player.plays)[player.play].program);
    return std::move(players_[static_cast<std::size_t>(coordinate)].meetings);
  }

 private:
  struct Sent {
    Message at;
    std::int64_t posted = 0, received = kNever;
  };
  struct Player {
    int rank = 0;
    const std::vector<Play>* plays = nullptr;
    std::size_t play = 0;
    StepId step = 0;
    std::int64_t clock = 0;
    bool begun = false, arrived = false;
    // by program and copy: peer, message
    std::map<std::pair<std::string, int>, std::vector<std::pair<int, std::size_t>>> sent{};
    std::vector<Meeting> meetings{};
  };

  const Play& playOf(const Player& player) const { return (*player.plays)[player.play]; }
  const Body& bodyOf(const Player& player) const {
    return *plan_.find(playOf(player).program, player.rank);
  }
  std::vector<Sent>& channel(int from, int to) { return channels_[{from, to}]; }
  std::size_t& receivedOf(int from, int to) { return received_[{from, to}]; }

  // Goes as far as nothing is waited for, then says when the player goes on: kNever where that
  // depends on others.
  Result<std::int64_t> timeOf(std::size_t p) {
    Player& player = players_[p];
    const int self = static_cast<int>(p);
    if (player.arrived) return kNever;
    while (player.play < player.plays->size()) {
      const Play& play = playOf(player);
      if (!player.begun) {
        std::int64_t time = player.clock;
        for (const auto& [peer, message] : player.sent[{play.program, play.copy}])
          time = std::max(time, channel(self, peer)[message].received);
        if (time == kNever) return kNever;
        player.clock = time;
        player.sent[{play.program, play.copy}].clear();
        player.begun = true;
      }
      const Body& body = bodyOf(player);
      for (; player.step < static_cast<StepId>(body.steps.size()); ++player.step) {
        const Step& step = body.steps[static_cast<std::size_t>(player.step)];
        const Message at{static_cast<int>(player.play), player.step};
        if (step.kind == StepKind::kCompute) {
          ++player.clock;
        } else if (step.axis != plan_.mesh.messageAxis()) {
          player.meetings.push_back({at, false});
          ++player.clock;
        } else if (step.op == ir::Op::kSend) {
          const Buffer& sent = body.buffers[static_cast<std::size_t>(step.inputs[0])];
          const Buffer& root =
              sent.base >= 0 ? body.buffers[static_cast<std::size_t>(sent.base)] : sent;
          if (root.kind != BufferKind::kState)
            return makeError(Code::kFailedPrecondition,
                             "step {} sends what does not outlast its play", step.name);
          const int peer = peersOf(step, play.copy).first;
          player.sent[{play.program, play.copy}].emplace_back(peer, channel(self, peer).size());
          channel(self, peer).push_back({at, player.clock});
          ++progress_;
        } else if (step.op == ir::Op::kRecv) {
          const int peer = peersOf(step, play.copy).first;
          const std::vector<Sent>& from = channel(peer, self);
          const std::size_t next = receivedOf(peer, self);
          return next == from.size() ? kNever : std::max(player.clock, from[next].posted);
        } else if (isMessage(step)) {
          return makeError(Code::kFailedPrecondition, "step {} is no message between two ranks",
                           step.name);
        } else {
          return arrival(self);
        }
      }
      player.step = 0;
      player.begun = false;
      ++player.play;
    }
    return kNever;
  }

  // At a collective of all: what the player has sent is received before.
  std::int64_t arrival(int self) {
    std::int64_t time = players_[static_cast<std::size_t>(self)].clock;
    for (const auto& [pair, messages] : channels_)
      for (const Sent& one : messages)
        if (pair.first == self) time = std::max(time, one.received);
    return time;
  }

  void move(std::size_t p, std::int64_t time) {
    Player& player = players_[p];
    const Message at{static_cast<int>(player.play), player.step};
    const Step& step = bodyOf(player).steps[static_cast<std::size_t>(player.step)];
    player.clock = time;
    if (step.op == ir::Op::kRecv) {
      const int self = static_cast<int>(p), peer = peersOf(step, playOf(player).copy).first;
      Sent& message = channel(peer, self)[receivedOf(peer, self)++];
      message.received = time;
      players_[static_cast<std::size_t>(peer)].meetings.push_back({message.at, true});
      player.meetings.push_back({at, false});
      ++player.step;
      return;
    }
    player.arrived = true;
    if (std::any_of(players_.begin(), players_.end(),
                    [](const Player& one) { return !one.arrived; }))
      return;
    for (Player& one : players_) {
      one.meetings.push_back({{static_cast<int>(one.play), one.step}, false});
      one.clock = time + 1;
      one.arrived = false;
      ++one.step;
    }
  }

  const Plan& plan_;
  std::vector<Player> players_;                                // by coordinate
  std::map<std::pair<int, int>, std::vector<Sent>> channels_;  // from, to
  std::map<std::pair<int, int>, std::size_t> received_;
  std::size_t progress_ = 0;  // how many have been sent
};

}  // namespace

Result<std::vector<std::vector<MessageGroup>>> messageOrder(
    const Plan& plan, const std::vector<std::vector<Play>>& schedule, int rank) {
  const int stage = plan.stageOf(rank);
  const std::vector<Play>& plays = schedule[static_cast<std::size_t>(stage)];
  LOCKSTEP_ASSIGN(const auto meetings,
                  Meetings(plan, schedule).of(plan.mesh.coordinate(rank, plan.mesh.messageAxis())));
  std::vector<std::vector<MessageGroup>> out(plays.size());
  std::size_t next = 0;  // of the meetings
  for (std::size_t p = 0; p < plays.size(); ++p) {
    const Body& body = *plan.find(plays[p].program, rank);
    const int play = static_cast<int>(p);
    const auto steps = static_cast<StepId>(body.steps.size());
    // The group that is given before step `before`: the last one, where all steps between are among
    // its receives.
    const auto groupAt = [&](StepId before) -> MessageGroup& {
      if (!out[p].empty()) {
        MessageGroup& last = out[p].back();
        const auto received = std::count_if(
            last.messages.begin(), last.messages.end(),
            [&](const Message& one) { return one.play == play && one.step >= last.before; });
        if (last.before + received == before) return last;
      }
      return out[p].emplace_back(MessageGroup{before, {}, false});
    };
    // Sends that the plan's order has come to, until the next that it has not.
    const auto giveSends = [&](StepId before) {
      for (; next < meetings.size() && meetings[next].sends; ++next) {
        const Message& message = meetings[next].at;
        if (std::pair(message.play, message.step) >= std::pair(play, before)) break;
        MessageGroup& group = groupAt(before);
        group.messages.push_back(message);
        const Play& of = plays[static_cast<std::size_t>(message.play)];
        if (message.play < play && of.program == plays[p].program && of.copy == plays[p].copy)
          group.awaited = true;
      }
    };
    giveSends(0);
    for (StepId s = 0; s < steps; ++s) {
      const Step& step = body.steps[static_cast<std::size_t>(s)];
      if (step.kind == StepKind::kCompute || step.op == ir::Op::kSend) continue;
      giveSends(s);
      LOCKSTEP_CHECK(next < meetings.size() && meetings[next].at == (Message{play, s}));
      if (step.op == ir::Op::kRecv) {
        MessageGroup& group = groupAt(s);
        group.messages.push_back(meetings[next].at);
        group.awaited = true;
      }
      ++next;
    }
    if (p + 1 == plays.size()) giveSends(steps);
  }
  LOCKSTEP_CHECK(next == meetings.size());
  return out;
}

}  // namespace lockstep::plan
