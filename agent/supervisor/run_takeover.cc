// RunControl: what becomes of the run when another node takes over from a coordinator that is lost
// (succession.h).
#include <algorithm>

#include "agent/base/grpc_status.h"
#include "agent/supervisor/run_control.h"
#include "agent/worker/prepare.h"
#include "engine/base/file.h"
#include "engine/base/log.h"

namespace lockstep::agent {

bool RunControl::hasQuorum() const {
  return isQuorum(electorates_, [this](const std::string& name) {
    return name == request_.node() || answers(name);
  });
}

bool RunControl::continuesWithoutAny() const {
  return agent::continuesWithoutAny(request_.spec(), launched_, largest(electorates_));
}

// From this generation on: the nodes with ranks, and others that answer.
std::vector<std::string> RunControl::nodesThatVote() const {
  std::vector<std::string> out = nodesOf(request_);
  const bool isFirst = generation_ == request_.generation();
  std::erase_if(out, [&](const std::string& name) {
    const bool mayVote = isFirst || name == request_.node() || hasRanks(name) || answers(name);
    return returned_.contains(name) || !mayVote;
  });
  // Of two equal halves, the coordinator's decides.
  std::stable_partition(out.begin(), out.end(),
                        [this](const std::string& name) { return name == request_.node(); });
  return out;
}

node::v1::Go RunControl::goMessage() const {
  node::v1::Go out;
  *out.mutable_cluster() = request_.cluster();
  for (const std::string& name : nodesThatVote()) {
    const auto peer = peers_.find(name);
    if (peer == peers_.end() || peer->second.address.empty()) continue;
    node::v1::Listener& listener = *out.add_listeners();
    listener.set_node(name);
    listener.set_address(peer->second.address);
  }
  return out;
}

Succession::Situation RunControl::situation() const {
  Succession::Situation out;
  out.follows = !outcome_ && !coordinates();
  out.continues = continuesWithoutAny();
  out.absent = absent_;
  out.coordinator = coordinator_;
  out.heard = coordinatorHeard_.last;
  out.silent = coordinatorHeard_.silent;
  return out;
}

Succession::Handlers RunControl::successionHandlers() {
  Succession::Handlers out;
  out.say = [this](std::string line) { say(std::move(line)); };
  out.situation = [this] { return situation(); };
  out.electorates = [this](const Succession::Voters& voters) {
    return electoratesOf(newestOf(voters));
  };
  out.nodesWithRanks = [this] {
    std::vector<std::string> nodes = nodesOf(request_);
    std::erase_if(nodes, [this](const std::string& name) { return !hasRanks(name); });
    return nodes;
  };
  out.connect = [this](const node::v1::Listener& successor) {
    candidate_ = connect(successor.node(), successor.address());
  };
  out.disconnect = [this] { candidate_.reset(); };
  out.sendVote = [this] {
    node::v1::FromPeer message;
    *message.mutable_vote()->mutable_decisions() = decisions();
    for (const std::string& name : requests_.excluded()) message.mutable_vote()->add_excluded(name);
    if (candidate_) candidate_->send(std::move(message));
  };
  out.sendDecline = [this](const std::string& node, const node::v1::Decline& decline) {
    node::v1::ToPeer message;
    *message.mutable_decline() = decline;
    server_->send(node, std::move(message));
  };
  out.leaveCoordinator = [this] {
    client_.reset();
    onCoordinatorLost("it has not answered");
  };
  out.followCoordinator = [this] { client_ = connect(coordinator_, coordinatorAddress_); };
  out.takeOver = [this](const std::vector<std::string>& lost, const Succession::Voters& voters) {
    return takeOverWithout(lost, voters);
  };
  return out;
}

void RunControl::onVote(const std::string& node, const node::v1::FromPeer& message) {
  if (agreed_ || killed_) return tellEnd(node, *outcome_);
  // It has ended its own part, as one that is excluded: the others go on without it, or end.
  if (outcome_) {
    node::v1::ToPeer answer;
    answer.mutable_decline();
    return server_->send(node, answer);
  }
  votes_[node] = message.vote();
  succession_.onVote(node, message.generation(), monotonicNow());
}

void RunControl::onCandidateMessage(const std::string& node, const node::v1::ToPeer& message) {
  if (outcome_ || !candidate_) return;
  if (message.has_abort()) {
    abort(fromInfo(message.abort().error()));
  } else if (message.has_all_done()) {
    endAs(message.all_done().state());
  } else if (message.has_decline()) {
    succession_.onDecline(message.decline(), monotonicNow());
  } else if (message.has_recover() && message.generation() >= generation_) {
    // It may have the number of one that the lost coordinator began here alone.
    say(fmt::format("node {} coordinates the run from now on", node));
    client_ = std::move(candidate_);
    coordinator_ = node;
    for (const node::v1::Listener& listener : succession_.listeners())
      if (listener.node() == node) coordinatorAddress_ = listener.address();
    loop_.cancel(lostTimer_);
    lostTimer_ = 0;
    coordinatorHeard_.last = monotonicNow();
    beginGeneration(message.generation(), message.recover());
    if (evaluator_) evaluator_->onJoin();
  }
}

Status RunControl::takeOverWithout(const std::vector<std::string>& lost,
                                   const Succession::Voters& voters) {
  continueFrom(voters);
  if (decidedEnd_ || stopping_) {
    becomeCoordinator(voters);
    for (const std::string& name : nodesOf(request_))
      if (name != request_.node()) peers_[name];  // one that comes later is told too
    endInTheirPlace(lost);
    return {};
  }
  // Nodes that were left out, and that the lost coordinator had not yet taken back.
  const std::vector<std::string> known = nodesOf(request_);
  for (const auto& [name, voter] : voters)
    if (recover_.has_members() && !requests_.isExcluded(name) &&
        std::find(known.begin(), known.end(), name) == known.end())
      addSpare(name);
  const auto votes = [&](const std::string& name) { return voters.contains(name); };
  LOCKSTEP_ASSIGN(const node::v1::Members members, membersWithout(lost, request_, votes));
  takeOver(lost, voters, members);
  return {};
}

// The run's end was decided, or it was being stopped when the nodes `lost` were.
void RunControl::endInTheirPlace(const std::vector<std::string>& lost) {
  if (decidedEnd_)
    say("all ranks have ended, and so does the run");
  else
    warnOfStopWithout(lostError(lost));
  decidedEnd_ = decidedEnd_.value_or(run::v1::STOPPED);
  endAsDecided();
}

void RunControl::becomeCoordinator(const Succession::Voters& voters) {
  say(fmt::format("coordinates the run from now on, instead of node {}", coordinator_));
  request_.set_coordinator(true);
  failedAt_ = coordinatorHeard_.last;
  for (const std::string& name : nodesOf(request_)) {
    const auto voter = voters.find(name);
    if (voter == voters.end()) {
      // A spare or an evaluator may come later.
      if (name != request_.node() && !hasRanks(name)) peers_[name];
      continue;
    }
    generation_ = std::max(generation_, voter->second.generation);
    Peer& peer = peers_[name];
    peer.joined = true;
    peer.address = voter->second.address;
    peer.heard.last = monotonicNow();
  }
  // For a supervisor that follows this one on the node.
  if (auto stored = folder_.readRequest(); stored.ok()) {
    stored->set_coordinator(true);
    const Status written =
        writeFileAtomically(folder_.request(), stored->SerializeAsString(), 0600);
    if (!written.ok()) logWarning("{}", written.error().text());
  }
  server_->setGeneration(generation_, nodesOf(request_));  // voters drop what is of an older one
}

void RunControl::takeOver(const std::vector<std::string>& lost, const Succession::Voters& voters,
                          const node::v1::Members& members) {
  becomeCoordinator(voters);
  if (const auto* node = specs::evaluatorNode(request_.cluster())) {
    evaluations_ = std::make_unique<Evaluations>(node->name());
    if (!voters.contains(node->name())) evaluatorLost("its supervisor does not answer");
  }
  Error error = lostError(lost);
  noteProgramProgress();
  if (const auto end = recovery_.ends(error, FailureKind::kNodeLost, furthest_, lost))
    return abort(*end);
  leaveOutLost(lost, error);
  takeOverRequests();
  // Judged again after the checkpoint, without the lost nodes.
  for (const auto& [node, ranks] : ranksByNode(request_))
    if (answers(node) && recovery_.failsRepeatedly(node)) excludeFailing(node);
  ++generation_;  // the lost coordinator may have begun one that no voter has heard of
  recover(error, members);
  electoratesTold_ = revision_;  // what the voters knew of a change is to be confirmed anew
  for (const std::string& name : requests_.excluded()) refuse(name);
  coordinator_ = request_.node();
}

}  // namespace lockstep::agent
