// RunControl: nodes that come back.
//
// A node that the run continues without, and whose supervisor still runs (it was frozen, or its
// network was cut), ends its workers and keeps trying to reach the coordinator, and the nodes that
// may have taken over from it. Once it does, it is a spare. If the run had been planned again for
// fewer nodes, the coordinator asks for a checkpoint and then begins a generation with the node's
// ranks, which loses no step before that checkpoint.
//
// Until a generation begins with it, such a node counts neither as a successor nor as a voter; a
// node that takes over meanwhile has it as a spare.
#include <signal.h>

#include <algorithm>

#include "agent/supervisor/run_control.h"
#include "agent/worker/prepare.h"

namespace lockstep::agent {

// Whether the run may have continued without this node, and take it back.
bool RunControl::mayReturn() const {
  return trained() && !stopping_ && !coordinates() && !evaluates() &&
         replacesNodes(request_.spec(), launched_);
}

// The coordinator has not answered for limits_.lostPeer.
void RunControl::endAlone(const Error& error) {
  if (outcome_ || absent_) return;
  if (stopping_ && !decidedEnd_) {
    warnOfStopWithout(error);
    endAs(run::v1::STOPPED);
    agreed_ = !continuesWithoutAny();  // else the others may have gone on
    return;
  }
  // Where no node can take over, none decides otherwise.
  if (decidedEnd_ && !(mayReturn() && continuesWithoutAny())) return endAs(*decidedEnd_);
  if (!mayReturn()) return abort(error);
  say(fmt::format(
      "ends its workers, and waits {} s for the other nodes, which may continue the run",
      limits_.absence / 1'000'000'000));
  absent_ = leaving_ = true;
  if (state_ != run::v1::RECOVERING) setState(run::v1::RECOVERING);
  workers_.signalAll(SIGKILL);
  succession_.withdraw();
  // Where this node has voted, the successor counts its vote until then.
  if (!client_)
    loop_.after(2 * Succession::kTurn * heartbeat_, [this] {
      if (absent_ && !client_) client_ = connect(coordinator_, coordinatorAddress_);
    });
  absence_ = loop_.after(limits_.absence, [this, error] {
    if (absent_) abort(error);
  });
}

// The coordinator answers again and has not gone on without this node. If this one has ended
// workers that had not succeeded, the run has to restart: that is told as a cascading failure, for
// which no node is blamed, since it may have been the coordinator that was frozen or cut off.
void RunControl::endAbsence() {
  if (outcome_ || !absent_) return;
  if (!request_.ranks().empty() && doneStatus_.empty())
    return localFailure(lostError({request_.node()}), true);
  say(fmt::format("node {} answers again, and the run still has this node", coordinator_));
  succession_.withdraw();  // or it would vote for a node that it still seeks
  loop_.cancel(absence_);
  absence_ = 0;
  absent_ = leaving_ = false;
  if (gone_) setState(run::v1::RUNNING);
}

// Makes a node that was left out a spare. Returns false if the run was launched without it.
bool RunControl::addSpare(const std::string& node) {
  const auto& all = launched_.nodes();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const auto& one) { return one.name() == node; });
  if (found == all.end()) return false;
  spec::v1::NodeSpec& spare = *request_.mutable_cluster()->add_nodes();
  spare = *found;
  spare.clear_roles();
  spare.add_roles("spare");
  takeCluster(request_.cluster());
  return true;
}

// At the coordinator: a node that was left out has joined again. Returns false if the run does not
// take it back.
bool RunControl::takeBack(const std::string& node) {
  if (outcome_ || stopping_ || !recover_.has_members() || requests_.isExcluded(node) ||
      !addSpare(node))
    return false;
  peers_[node].heard.last = monotonicNow();
  returned_.insert(node);
  keptOut_.clear();
  cannotGrow_ = false;
  say(fmt::format("node {} is back, as a spare", node));
  if (gone_) {
    node::v1::ToPeer message;
    *message.mutable_go() = goMessage();
    tellPeers(message);  // whoever takes over can count on it
  }
  return true;
}

// The nodes of the generation, and spares.
void RunControl::takeCluster(spec::v1::ClusterSpec cluster) {
  if (recover_.has_members()) *recover_.mutable_members()->mutable_cluster() = cluster;
  *request_.mutable_cluster() = std::move(cluster);
}

bool RunControl::isEnding() const {
  return !doneStatus_.empty() || isTrained_ ||
         std::any_of(peers_.begin(), peers_.end(),
                     [](const auto& one) { return !one.second.done.empty(); });
}

// Whether the run was planned again for fewer nodes, and a node is there that can have ranks.
bool RunControl::canGrow() const {
  if (!coordinates() || !gone_ || isEnding() || stopping_ || outcome_ || cannotGrow_ ||
      request_.spec().recovery().policy() != "shrink")
    return false;
  const auto& strategy = request_.spec().strategy();
  const auto spares = specs::spareNodes(request_.cluster());
  return specs::nodesWithRanks(request_.cluster(), strategy).size() <
             specs::nodesWithRanks(launched_, strategy).size() &&
         std::any_of(spares.begin(), spares.end(),
                     [&](const auto* spare) { return answers(spare->name()); });
}

void RunControl::grow() {
  if (!canGrow() || leaving_) return;
  if (anyLate()) {
    loop_.after(heartbeat_, [this, generation = generation_] {
      if (generation == generation_ && awaitsCheckpoint()) regroupSoon();
    });
    return;
  }
  const auto members = membersWithSpares(launched_, request_,
                                         [this](const std::string& node) { return answers(node); });
  if (!members.ok()) {
    cannotGrow_ = true;
    say(fmt::format("the run cannot use the nodes that are back: {}", members.error().text()));
    return;
  }
  std::vector<std::string> back;
  const auto before = ranksByNode(request_);
  node::v1::PrepareRequest next = request_;
  static_cast<void>(apply(*members, next));  // planned here, so of few enough ranks
  for (const auto& [node, ranks] : ranksByNode(next))
    if (!before.contains(node)) back.push_back(node);
  Error cause = back.size() == 1
                    ? makeError(Code::kAborted, "node {} is back and has ranks again", back.front())
                    : makeError(Code::kAborted, "nodes {} are back and have ranks again",
                                fmt::join(back, ", "));
  cause.node = back.front();
  failedAt_ = monotonicNow();
  recover(cause, *members);
}

Status RunControl::checkCoordinates() const {
  if (coordinates()) return {};
  return makeError(Code::kFailedPrecondition, "node {} does not coordinate the run",
                   request_.node());
}

Status RunControl::checkTakesCheckpoints() const {
  if (specs::takesCheckpoints(request_.spec())) return {};
  Error error = makeError(Code::kFailedPrecondition, "the run takes no checkpoints");
  error.why = request_.spec().has_workload() ? "its program writes its own"
                                             : "training.checkpoint.disabled is set";
  return error;
}

Status RunControl::checkpoint(const std::string& run, int generation) {
  LOCKSTEP_TRY(check(run, generation));
  if (outcome_) return {};
  LOCKSTEP_TRY(checkCoordinates());
  LOCKSTEP_TRY(checkTakesCheckpoints());
  checkpointAsked_ = true;
  checkpointNow();
  return {};
}

void RunControl::checkpointNow() {
  node::v1::ToWorker message;
  message.mutable_checkpoint();
  workers_.sendAll(message);
}

}  // namespace lockstep::agent
