// RunControl: another node takes over from a coordinator that is lost.
//
// The coordinator tells all nodes who succeeds it, in order. A node that has heard nothing from the
// coordinator for some heartbeats leaves it and votes for the first successor that it reaches,
// again at each heartbeat. Its vote lasts until that node declines it: because the coordinator
// answers that node, because it has voted itself (then the vote goes where its own went), or
// because it has stood in vain. Then the next successor has its turn, or the first again, at
// random, so that nodes cannot wait for each other in a circle. A successor to which the
// coordinator is silent too, and which has the votes of more than half of the nodes, begins the
// next generation without those that have not voted.
//
// A node that has voted, or asks for votes, has left the coordinator. It follows the coordinator
// again only if the successor has given up; until then, neither counts on it twice. Likewise a
// coordinator that reaches fewer than half of the nodes does not continue (hasQuorum). Counted are
// the nodes of the last generation that trained, so that two nodes never coordinate one run.
#include <algorithm>
#include <random>

#include "agent/base/grpc_status.h"
#include "agent/supervisor/run_control.h"
#include "agent/worker/prepare.h"
#include "engine/base/file.h"
#include "engine/base/log.h"

namespace lockstep::agent {
namespace {

// In heartbeats.
constexpr int kTurn = 4;    // a successor has so long to be reached
constexpr int kStands = 8;  // a node asks for votes so long, and up to kTurn more
constexpr int kWaits = 2;   // a majority waits so long for the others' votes

int atRandom(int below) {
  static std::minstd_rand random{std::random_device{}()};
  return static_cast<int>(random() % static_cast<unsigned>(below));
}

}  // namespace

bool RunControl::hasQuorum() const {
  const auto present = 1 + std::count_if(electorate_.begin(), electorate_.end(),
                                         [&](const std::string& name) { return answers(name); });
  return isQuorum(static_cast<std::size_t>(present), electorate_.size(), true);
}

bool RunControl::continuesWithoutAny() const {
  return agent::continuesWithoutAny(request_.spec(), launched_, electorate_.size());
}

node::v1::Go RunControl::goMessage() const {
  node::v1::Go out;
  *out.mutable_cluster() = request_.cluster();
  for (const std::string& name : electorate_) {
    out.add_electorate(name);
    const auto peer = peers_.find(name);
    if (peer == peers_.end() || peer->second.address.empty()) continue;
    node::v1::Listener& listener = *out.add_listeners();
    listener.set_node(name);
    listener.set_address(peer->second.address);
  }
  return out;
}

void RunControl::seekSuccessor() {
  if (outcome_ || stopping_) return;
  if (!stands_) answerVotes();
  if (coordinates() || outcome_) return;  // these votes were enough
  if (listeners_.empty()) return;
  if (absent_) return seekCoordinator();
  if (!continuesWithoutAny()) return;
  const Nanoseconds now = monotonicNow();
  if (stands_) {
    countVotes();
    if (stands_ && now > seekUntil_) followAgain(kWaits);
    return;
  }
  if (voted_) {
    if (candidateLost_ == 0)
      vote(candidateNode_);
    else if (now - candidateLost_ > kTurn * heartbeat_)
      followAgain(kWaits);
    return;
  }
  if (!coordinatorHeard_.silent) {
    candidate_.reset();
    seekUntil_ = 0;
    turn_ = 0;
    return;
  }
  if (now < seekUntil_) return;
  seek(turn_ % listeners_.size());
}

void RunControl::seek(std::size_t successor) {
  const node::v1::Listener& listener = listeners_[successor];
  turn_ = successor + 1;
  seekUntil_ = monotonicNow() + kTurn * heartbeat_;
  if (listener.node() == request_.node())
    stand();
  else
    candidate_ = connect(listener.node(), listener.address());
}

// The successor can be reached.
void RunControl::vote(const std::string& successor) {
  if (outcome_ || !candidate_ || absent_ || stands_) return;
  if (!voted_) {
    say(fmt::format("node {} does not answer: votes for node {}", coordinator_, successor));
    voted_ = true;
    candidateNode_ = successor;
    leaveCoordinator();
  }
  candidateLost_ = 0;
  node::v1::FromPeer message;
  message.mutable_vote();
  candidate_->send(std::move(message));
}

void RunControl::stand() {
  say(fmt::format("node {} does not answer: asks for votes to take over", coordinator_));
  stands_ = true;
  voted_ = false;
  standsSince_ = monotonicNow();
  seekUntil_ = standsSince_ + (kStands + atRandom(kTurn + 1)) * heartbeat_;
  candidate_.reset();  // or it would have this node's vote too, once it is reached
  leaveCoordinator();
  countVotes();
}

void RunControl::leaveCoordinator() {
  client_.reset();
  onCoordinatorLost("it has not answered");
}

void RunControl::followAgain(int heartbeats) {
  if (outcome_) return;
  if (atRandom(2) == 0) turn_ = 0;
  stands_ = voted_ = false;
  candidateLost_ = 0;
  seekUntil_ = monotonicNow() + heartbeats * heartbeat_;
  declineVotes(monotonicNow());
  candidate_.reset();
  client_ = connect(coordinator_, coordinatorAddress_);
}

void RunControl::onDecline(const node::v1::Decline& decline) {
  if (absent_) return;
  const auto successor = std::find_if(listeners_.begin(), listeners_.end(), [&](const auto& one) {
    return one.node() == decline.successor();
  });
  if (!voted_ || successor == listeners_.end())
    return followAgain(decline.hears() ? kTurn : kWaits);
  voted_ = false;
  seek(static_cast<std::size_t>(successor - listeners_.begin()));
}

void RunControl::onCandidateMessage(const std::string& node, const node::v1::ToPeer& message) {
  if (outcome_ || !candidate_) return;
  if (message.has_abort()) {
    abort(fromInfo(message.abort().error()));
  } else if (message.has_decline()) {
    onDecline(message.decline());
  } else if (message.has_recover() && message.generation() > generation_) {
    say(fmt::format("node {} coordinates the run from now on", node));
    client_ = std::move(candidate_);
    coordinator_ = node;
    for (const node::v1::Listener& listener : listeners_)
      if (listener.node() == node) coordinatorAddress_ = listener.address();
    loop_.cancel(lostTimer_);
    lostTimer_ = 0;
    onCoordinatorMessage(message);
    if (evaluator_) evaluator_->onJoin();
  }
}

void RunControl::onVote(const std::string& node, int generation) {
  const Nanoseconds now = monotonicNow();
  Vote& vote = votes_.try_emplace(node, Vote{now, now, generation}).first->second;
  vote.last = now;
  vote.generation = std::max(vote.generation, generation);
  if (stands_) countVotes();
}

// Declines votes that this node will not use: the coordinator has answered it since, or it has
// voted itself. Of two nodes that vote for each other, the first in order stands.
void RunControl::answerVotes() {
  dropLapsed();
  node::v1::Decline decline;
  if (voted_) {
    const auto isBefore = [this](const node::v1::Listener& one) {
      return one.node() == request_.node() || one.node() == candidateNode_;
    };
    const auto first = std::find_if(listeners_.begin(), listeners_.end(), isBefore);
    if (votes_.contains(candidateNode_)) {
      if (first != listeners_.end() && first->node() == request_.node()) return stand();
      votes_.erase(candidateNode_);
    }
    decline.set_successor(candidateNode_);
    return declineVotes(monotonicNow(), decline);
  }
  // A node that cannot stand keeps nobody waiting.
  const bool stands = !listeners_.empty() && !absent_ && continuesWithoutAny();
  decline.set_hears(!coordinatorHeard_.silent);
  declineVotes(stands ? coordinatorHeard_.last - heartbeat_ : monotonicNow() - kTurn * heartbeat_,
               decline);
}

void RunControl::declineVotes(Nanoseconds until, const node::v1::Decline& decline) {
  if (votes_.empty()) return;
  node::v1::ToPeer message;
  *message.mutable_decline() = decline;
  std::erase_if(votes_, [&](const auto& vote) {
    if (vote.second.since > until) return false;
    server_->send(vote.first, message);
    return true;
  });
}

void RunControl::dropLapsed() {
  std::erase_if(votes_, [this](const auto& vote) {
    return monotonicNow() - vote.second.last > kTurn * heartbeat_;
  });
}

void RunControl::countVotes() {
  dropLapsed();
  std::vector<std::string> lost;
  for (const std::string& name : nodesOf(request_))
    if (!votes_.contains(name) && name != request_.node() && hasRanks(name)) lost.push_back(name);
  const std::size_t all = electorate_.size();
  const auto present = static_cast<std::size_t>(std::count_if(
      electorate_.begin(), electorate_.end(),
      [&](const std::string& name) { return name == request_.node() || votes_.contains(name); }));
  const Nanoseconds stood = monotonicNow() - standsSince_;
  const bool waits = present + 1 < all && stood < kWaits * heartbeat_;
  if (!isQuorum(present, all, false) || waits) return;
  const auto votes = [this](const std::string& name) { return votes_.contains(name); };
  // Nodes that were left out, and that the lost coordinator had not yet taken back.
  const std::vector<std::string> known = nodesOf(request_);
  for (const auto& [name, vote] : votes_)
    if (recover_.has_members() && std::find(known.begin(), known.end(), name) == known.end())
      addSpare(name);
  const auto members = membersWithout(lost, request_, votes);
  if (members.ok()) return takeOver(lost, *members);
  // The vote of a spare, or of a node that was left out, may be on its way.
  if (stood < kStands * heartbeat_ &&
      std::any_of(launched_.nodes().begin(), launched_.nodes().end(), [&](const auto& node) {
        return node.name() != request_.node() && !votes(node.name()) &&
               std::find(lost.begin(), lost.end(), node.name()) == lost.end();
      }))
    return;
  say(fmt::format("the run cannot continue without {}: {}", fmt::join(lost, ", "),
                  members.error().text()));
  followAgain(kTurn);
}

void RunControl::takeOver(const std::vector<std::string>& lost, const node::v1::Members& members) {
  say(fmt::format("coordinates the run from now on, instead of node {}", coordinator_));
  request_.set_coordinator(true);
  failedAt_ = coordinatorHeard_.last;
  for (const std::string& name : nodesOf(request_)) {
    const auto vote = votes_.find(name);
    if (vote == votes_.end()) {
      // A spare or an evaluator may come later.
      if (name != request_.node() && !hasRanks(name)) peers_[name];
      continue;
    }
    generation_ = std::max(generation_, vote->second.generation);
    Peer& peer = peers_[name];
    peer.joined = true;
    peer.address = addresses_[name];
    peer.heard.last = monotonicNow();
  }
  if (const auto* node = specs::evaluatorNode(request_.cluster())) {
    evaluations_ = std::make_unique<Evaluations>(node->name());
    if (!votes_.contains(node->name())) evaluatorLost("its supervisor does not answer");
  }
  // For a supervisor that follows this one on the node.
  if (auto stored = folder_.readRequest(); stored.ok()) {
    stored->set_coordinator(true);
    const Status written =
        writeFileAtomically(folder_.request(), stored->SerializeAsString(), 0600);
    if (!written.ok()) logWarning("{}", written.error().text());
  }
  recovery_ = Recovery(request_.spec().recovery(), recover_.failures());
  const Error error = lostError(lost);
  if (const auto end = recovery_.ends(error, furthest_, lost)) return abort(*end);
  ++generation_;  // the lost coordinator may have begun one that no voter has heard of
  recover(error, members);
  coordinator_ = request_.node();
}

}  // namespace lockstep::agent
