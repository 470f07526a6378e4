#include "agent/supervisor/succession.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace lockstep::agent {
namespace {

// In heartbeats.
constexpr int kStands = 8;  // a node asks for votes so long, and up to kTurn more
constexpr int kWaits = 2;   // a majority waits so long for the others' votes

}  // namespace

Succession::Succession(std::string node, std::vector<std::string> launched, Nanoseconds heartbeat,
                       Handlers handlers)
    : node_(std::move(node)),
      launched_(std::move(launched)),
      heartbeat_(heartbeat),
      handlers_(std::move(handlers)),
      random_(static_cast<unsigned>(std::hash<std::string>()(node_))) {}

int Succession::atRandom(int below) {
  return static_cast<int>(random_() % static_cast<unsigned>(below));
}

void Succession::setListeners(std::vector<node::v1::Listener> listeners) {
  listeners_ = std::move(listeners);
}

void Succession::beat(Nanoseconds now) {
  if (!stands_) answerVotes(now);
  const Situation run = handlers_.situation();
  if (!run.follows) return;  // it has just taken over
  if (listeners_.empty()) return;
  if (run.absent) return seekCoordinator(now);
  if (!run.continues) return;
  if (stands_) {
    countVotes(now);
    if (stands_ && now > seekUntil_) followAgain(kWaits, now);
    return;
  }
  if (voted_) {
    if (candidateLost_ == 0)
      vote(candidateNode_);
    else if (now - candidateLost_ > kTurn * heartbeat_)
      followAgain(kWaits, now);
    return;
  }
  if (!run.silent) {
    disconnect();
    seekUntil_ = 0;
    turn_ = 0;
    return;
  }
  if (now < seekUntil_) return;
  seek(turn_ % listeners_.size(), now);
}

void Succession::seek(std::size_t successor, Nanoseconds now) {
  const node::v1::Listener& listener = listeners_[successor];
  turn_ = successor + 1;
  seekUntil_ = now + kTurn * heartbeat_;
  if (listener.node() == node_) return stand(now);
  connects_ = true;
  handlers_.connect(listener);
}

// Asks the nodes one after another that may have taken over; the connection to the coordinator
// stays.
void Succession::seekCoordinator(Nanoseconds now) {
  if (connects_ && now < seekUntil_) return;
  seekUntil_ = now + kTurn * heartbeat_;
  const node::v1::Listener& next = listeners_[turn_++ % listeners_.size()];
  if (next.node() == node_ || next.node() == handlers_.situation().coordinator) return;
  connects_ = true;
  handlers_.connect(next);
}

void Succession::vote(const std::string& successor) {
  const Situation run = handlers_.situation();
  if (!run.follows || !connects_ || run.absent || stands_) return;
  if (!voted_) {
    handlers_.say(
        fmt::format("node {} does not answer: votes for node {}", run.coordinator, successor));
    voted_ = true;
    candidateNode_ = successor;
    handlers_.leaveCoordinator();
  }
  candidateLost_ = 0;
  handlers_.sendVote();
}

void Succession::onUnreached(const std::string& successor, Nanoseconds now) {
  if (voted_ && successor == candidateNode_) candidateLost_ = now;
}

void Succession::stand(Nanoseconds now) {
  handlers_.say(fmt::format("node {} does not answer: asks for votes to take over",
                            handlers_.situation().coordinator));
  stands_ = true;
  voted_ = false;
  standsSince_ = now;
  seekUntil_ = standsSince_ + (kStands + atRandom(kTurn + 1)) * heartbeat_;
  disconnect();  // or the successor would have this node's vote too, once it is reached
  handlers_.leaveCoordinator();
  countVotes(now);
}

void Succession::followAgain(int heartbeats, Nanoseconds now) {
  if (!handlers_.situation().follows) return;
  if (atRandom(2) == 0) turn_ = 0;
  stands_ = voted_ = false;
  candidateLost_ = 0;
  seekUntil_ = now + heartbeats * heartbeat_;
  declineVotes(now);
  disconnect();
  handlers_.followCoordinator();
}

void Succession::onDecline(const node::v1::Decline& decline, Nanoseconds now) {
  if (handlers_.situation().absent) return;
  const auto successor = std::find_if(listeners_.begin(), listeners_.end(), [&](const auto& one) {
    return one.node() == decline.successor();
  });
  if (!voted_ || successor == listeners_.end())
    return followAgain(decline.hears() ? kTurn : kWaits, now);
  voted_ = false;
  seek(static_cast<std::size_t>(successor - listeners_.begin()), now);
}

void Succession::onVote(const std::string& node, int generation, Nanoseconds now) {
  Vote& vote = votes_.try_emplace(node, Vote{now, now, generation}).first->second;
  vote.last = now;
  vote.generation = std::max(vote.generation, generation);
  if (stands_) countVotes(now);
}

// Declines votes that this node will not use: the coordinator has answered it since, or it has
// voted itself. Of two nodes that vote for each other, the first in order stands.
void Succession::answerVotes(Nanoseconds now) {
  dropLapsed(now);
  node::v1::Decline decline;
  if (voted_) {
    const auto isBefore = [this](const node::v1::Listener& one) {
      return one.node() == node_ || one.node() == candidateNode_;
    };
    const auto first = std::find_if(listeners_.begin(), listeners_.end(), isBefore);
    if (votes_.contains(candidateNode_)) {
      if (first != listeners_.end() && first->node() == node_) return stand(now);
      votes_.erase(candidateNode_);
    }
    decline.set_successor(candidateNode_);
    return declineVotes(now, decline);
  }
  const Situation run = handlers_.situation();
  // A node that cannot stand keeps nobody waiting.
  const bool stands = !listeners_.empty() && !run.absent && run.continues;
  decline.set_hears(!run.silent);
  declineVotes(stands ? run.heard - heartbeat_ : now - kTurn * heartbeat_, decline);
}

void Succession::declineVotes(Nanoseconds until, const node::v1::Decline& decline) {
  std::erase_if(votes_, [&](const auto& vote) {
    if (vote.second.since > until) return false;
    handlers_.sendDecline(vote.first, decline);
    return true;
  });
}

void Succession::dropLapsed(Nanoseconds now) {
  std::erase_if(votes_,
                [&](const auto& vote) { return now - vote.second.last > kTurn * heartbeat_; });
}

Succession::Voters Succession::voters() const {
  Voters out;
  for (const auto& [name, vote] : votes_) {
    const auto address = addresses_.find(name);
    out[name] = {address == addresses_.end() ? "" : address->second, vote.generation};
  }
  return out;
}

void Succession::countVotes(Nanoseconds now) {
  dropLapsed(now);
  const auto votes = [this](const std::string& name) {
    return name == node_ || votes_.contains(name);
  };
  const Electorates electorates = handlers_.electorates(voters());
  const bool areMissing =
      std::any_of(electorates.begin(), electorates.end(), [&](const Electorate& one) {
        const auto present = static_cast<std::size_t>(std::count_if(one.begin(), one.end(), votes));
        return present + 1 < one.size();
      });
  const Nanoseconds stood = now - standsSince_;
  const bool waits = areMissing && stood < kWaits * heartbeat_;
  if (!isQuorum(electorates, votes) || waits) return;
  std::vector<std::string> lost = handlers_.nodesWithRanks();
  std::erase_if(lost, votes);
  const Status tookOver = handlers_.takeOver(lost, voters());
  if (tookOver.ok()) return;
  // The vote of a spare, or of a node that was left out, may be on its way.
  if (stood < kStands * heartbeat_ &&
      std::any_of(launched_.begin(), launched_.end(), [&](const std::string& name) {
        return !votes(name) && std::find(lost.begin(), lost.end(), name) == lost.end();
      }))
    return;
  handlers_.say(fmt::format("the run cannot continue without {}: {}", fmt::join(lost, ", "),
                            tookOver.error().text()));
  followAgain(kTurn, now);
}

void Succession::withdraw() {
  stands_ = voted_ = false;
  disconnect();
}

void Succession::clear(Nanoseconds now) {
  seekUntil_ = candidateLost_ = 0;
  voted_ = stands_ = false;
  if (handlers_.situation().follows) declineVotes(now);  // of nodes that are left out
  votes_.clear();
  disconnect();
}

void Succession::disconnect() {
  connects_ = false;
  handlers_.disconnect();
}

}  // namespace lockstep::agent
