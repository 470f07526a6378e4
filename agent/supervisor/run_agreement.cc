// RunControl: agreement among the run's nodes.
#include <algorithm>
#include <utility>

#include "agent/base/grpc_status.h"
#include "agent/supervisor/run_control.h"
#include "agent/worker/prepare.h"

namespace lockstep::agent {
namespace {

using node::v1::FromPeer;
using node::v1::ToPeer;
using node::v1::ToWorker;

constexpr Nanoseconds kClockInterval = 2'000'000'000;  // between two records of the clock offset

}  // namespace

void RunControl::tellPeers(const ToPeer& message) {
  if (!server_) return;
  for (const auto& [name, peer] : peers_) server_->send(name, message);
}

void RunControl::join(const std::string& address) {
  if (client_ || outcome_) return;
  coordinatorAddress_ = address;
  client_ = connect(coordinator_, address);
}

// To the coordinator, or to a node that may become it.
std::unique_ptr<PeerClient> RunControl::connect(const std::string& node,
                                                const std::string& address) {
  PeerClient::Handlers handlers;
  handlers.onJoin = [this, node] {
    node == coordinator_ ? onCoordinatorJoin() : succession_.onReached(node);
  };
  handlers.onLost = [this, node](const std::string& why) {
    if (node == coordinator_) return onCoordinatorLost(why);
    succession_.onUnreached(node, monotonicNow());
  };
  handlers.onRefused = [this, node](const Error& error) {
    if (node != coordinator_) return;
    Error info = error;
    info.node = request_.node();
    abort(info);
  };
  handlers.onMessage = [this, node](const ToPeer& message) {
    node == coordinator_ ? onCoordinatorMessage(message) : onCandidateMessage(node, message);
  };
  return std::make_unique<PeerClient>(loop_, node, address, server_ ? server_->address() : "",
                                      request_, generation_, std::move(handlers));
}

// ---- at the coordinator

void RunControl::onPeerJoin(const std::string& node, const node::v1::PeerHello& hello) {
  if (!coordinates()) {
    succession_.onJoin(node, hello.address());
    if (agreed_ || killed_) tellEnd(node, *outcome_);
    return;
  }
  if (!peers_.contains(node) && !takeBack(node)) return refuse(node);
  Peer& peer = peers_[node];
  peer.joined = true;
  if (peer.heard.last != 0) peer.heard.last = monotonicNow();  // it has joined again
  peer.address = hello.address();
  const auto ranks = ranksByNode(request_);
  if (const auto own = ranks.find(node); own != ranks.end())
    for (const int rank : own->second) hangs_.forget(rank);  // it tells them again
  loop_.cancel(peer.lost);
  peer.lost = 0;
  if (hello.plan_hash() != request_.plan_hash()) {
    Error error = makeError(Code::kFailedPrecondition, "node {} has another plan", node);
    error.next = "launch again from one version of the program";
    error.node = node;
    noteFailure(std::move(error), false);
    return;
  }
  // Sends the run's state, so that a node that joins again misses nothing.
  ToPeer message;
  if (generation_ > request_.generation()) {
    *message.mutable_recover() = recover_;
    *message.mutable_recover()->mutable_failures() = recovery_.past();  // as old as they are now
    server_->send(node, message);
  }
  if (committed_) {
    message.mutable_committed();
    server_->send(node, message);
  }
  if (gone_) {
    *message.mutable_go() = goMessage();
    server_->send(node, message);
  }
  if (checkpoints_.isCopiedHere()) {
    message.mutable_copied()->set_step(checkpoints_.copied());
    server_->send(node, message);
  }
  if (checkpoints_.awaits(node) || modelAwaited_.contains(node)) server_->send(node, copyMessage());
  *message.mutable_decisions() = decisions();
  server_->send(node, message);
  if (profiled_.count() > 0) {
    *message.mutable_profile() = profiled_;
    server_->send(node, message);
  }
  if (canGrow()) regroupSoon();
  if (isEvaluator(node)) tellEvaluator();
  if (outcome_) tellEnd(node, *outcome_);
}

void RunControl::onPeerLeave(const std::string& node) {
  if (!peers_.contains(node)) return;
  Peer& peer = peers_[node];
  peer.joined = false;
  if (const Nanoseconds now = monotonicNow(); now - peer.left > limits_.lostPeer) peer.left = now;
  if (outcome_ || !peer.done.empty()) return;
  say(fmt::format("node {} is not connected any more", node));
  peer.lost = loop_.after(limits_.lostPeer, [this, node] {
    if (outcome_ || !peers_.contains(node) || peers_[node].joined) return;
    if (isEvaluator(node)) {
      evaluatorLost(fmt::format("its supervisor did not come back within {} s",
                                limits_.lostPeer / 1'000'000'000));
      return;
    }
    if (!hasRanks(node)) return;  // a spare
    Error error = makeError(Code::kUnavailable, "node {} was lost", node);
    error.why =
        message("its supervisor did not come back within {} s", limits_.lostPeer / 1'000'000'000);
    error.next = "check whether the node runs and reaches the first node at its address";
    error.node = node;
    abort(error);  // a restart needs all nodes
  });
}

// As one whose disk is not there any more.
void RunControl::spareFailed(const std::string& node, Error error) {
  if (std::exchange(peers_[node].failed, true)) return;
  error.node = node;
  error.next =
      "check the node and its network; the run is not affected, because this spare is not in use";
  warn(std::move(error));
}

void RunControl::onPeerMessage(const std::string& node, const FromPeer& message) {
  if (!coordinates() && message.has_vote()) onVote(node, message);
  if (!peers_.contains(node)) return;
  Peer& peer = peers_[node];
  peer.heard.last = monotonicNow();
  // The evaluator has no workers of a generation.
  if (message.generation() != generation_ && !isEvaluator(node) && !message.has_ping()) return;
  switch (message.body_case()) {
    case FromPeer::kKvSet:
    case FromPeer::kKvGet:
      rendezvous_.onPeerMessage(node, message);
      break;
    case FromPeer::kReady:
      peer.ready = true;
      checkReady();
      break;
    case FromPeer::kFailed: {
      if (isEvaluator(node)) {
        evaluatorLost(fromInfo(message.failed()).what);
        break;
      }
      Error error = fromInfo(message.failed());
      if (!hasRanks(node) && error.code != Code::kCancelled) {  // else a person ends the run there
        spareFailed(node, std::move(error));
        break;
      }
      if (error.node.empty()) error.node = node;
      noteFailure(std::move(error), message.cascading());
      break;
    }
    case FromPeer::kDone:
      peer.done = message.done().status();
      checkDone();
      break;
    case FromPeer::kEvaluated:
      if (isEvaluator(node)) onEvaluated(message.evaluated());
      break;
    case FromPeer::kStalled:
      hangs_.onStalled(message.stalled(), monotonicNow());
      break;
    case FromPeer::kCopied:
      noteCopied(node, message.copied());
      break;
    case FromPeer::kDecisionsKept:
      peer.kept = std::min(message.decisions_kept().revision(), revision_);
      answerKept();
      break;
    case FromPeer::kStacks:
      hangs_.onStacks(message.stacks());
      break;
    case FromPeer::kPing: {
      ToPeer pong;
      pong.mutable_pong()->set_sent_ns(message.ping().sent_ns());
      pong.mutable_pong()->set_here_ns(monotonicNow());
      server_->send(node, pong);
      break;
    }
    default:
      break;
  }
}

void RunControl::checkReady() {
  if (!coordinates() || !ready_ || gone_ || outcome_) return;
  for (const auto& [name, peer] : peers_)
    if (!peer.ready && awaited(name)) return;
  loop_.cancel(formation_);
  ToPeer message;
  *message.mutable_go() = goMessage();
  tellPeers(message);
  go();
  changeElectorate();
}

// ---- at the other nodes

void RunControl::onCoordinatorJoin() {
  loop_.cancel(lostTimer_);
  lostTimer_ = 0;
  rendezvous_.onCoordinatorJoin();
  FromPeer message;
  if (ready_) {
    message.mutable_ready();
    client_->send(message);
  }
  if (!doneStatus_.empty()) {
    message.mutable_done()->set_status(doneStatus_);
    client_->send(message);
  }
  for (const auto& [rank, stalled] : stalled_) {
    *message.mutable_stalled() = stalled;
    client_->send(message);
  }
  if (evaluator_) evaluator_->onJoin();
  if (told_) {
    *message.mutable_failed() = toInfo(*told_);
    message.set_cascading(sentCascading_);
    client_->send(message);
  }
}

void RunControl::onCoordinatorLost(const Message& why) {
  if (outcome_ || lostTimer_ != 0) return;
  if (!committed_) return;  // the prepare expires
  say(fmt::format("node {} is not connected any more: {}", coordinator_, why.text()));
  lostTimer_ = loop_.after(limits_.lostPeer, [this, why] {
    if (outcome_) return;
    Error error =
        makeError(Code::kUnavailable, "node {}, which coordinates the run, was lost", coordinator_);
    error.why = message("no connection to it for {} s: {}", limits_.lostPeer / 1'000'000'000, why);
    error.next = "check whether that node runs and is reachable from here at its address";
    error.node = request_.node();
    endAlone(error);
  });
}

void RunControl::onCoordinatorMessage(const ToPeer& message) {
  coordinatorHeard_.last = monotonicNow();
  if (message.has_recover() && message.generation() > generation_)
    beginGeneration(message.generation(), message.recover());
  // A node that the run goes on without is told so in a later generation.
  if (message.generation() != generation_ && !message.has_abort()) return;
  switch (message.body_case()) {
    case ToPeer::kCommitted:
      committed();
      break;
    case ToPeer::kGo:
      if (Status counts = checkRankCounts(message.go().cluster()); !counts.ok())
        return localFailure(counts.error(), false);
      succession_.setListeners({message.go().listeners().begin(), message.go().listeners().end()});
      takeCluster(message.go().cluster());
      endAbsence();
      go();
      break;
    case ToPeer::kEvaluate:
      if (evaluator_ && !outcome_) evaluator_->onNewest(message.evaluate());
      break;
    case ToPeer::kCopyCheckpoint:
      copyHere(message.copy_checkpoint());
      break;
    case ToPeer::kCopied:
      onAllCopied(message.copied().step());
      break;
    case ToPeer::kDecisions:
      keepDecisions(message.decisions());
      break;
    case ToPeer::kProfile:
      profileHere(message.profile());
      break;
    case ToPeer::kReadStacks:
      readStacks(message.read_stacks().rank());
      break;
    case ToPeer::kAbort:
      say("ends its part: " + fromInfo(message.abort().error()).text());
      abort(fromInfo(message.abort().error()));
      break;
    case ToPeer::kAllDone:
      endAs(message.all_done().state());
      break;
    case ToPeer::kKvValue:
      rendezvous_.onValue(message.kv_value());
      break;
    case ToPeer::kPong: {
      const Nanoseconds now = monotonicNow();
      const Nanoseconds sent = message.pong().sent_ns(), there = message.pong().here_ns();
      if (now - clockNoted_ < kClockInterval) break;
      if (sent < 0 || sent > now || there < 0) break;  // of no clock
      clockNoted_ = now;
      run::v1::Record record;
      record.mutable_clock()->set_offset_ns(there - (sent + (now - sent) / 2));
      record.mutable_clock()->set_uncertainty_ns((now - sent) / 2);
      record.mutable_clock()->set_relative_to(coordinator_);
      if (!over_ && committed_) spool_.append(std::move(record));
      break;
    }
    default:
      break;
  }
}

// ---- at every node

void RunControl::localReady() {
  ready_ = true;
  if (coordinates()) {
    checkReady();
    return;
  }
  FromPeer message;
  message.mutable_ready();
  if (client_) client_->send(std::move(message));
}

void RunControl::go() {
  if (gone_ || outcome_) return;
  gone_ = true;
  programBegan_ = monotonicNow();
  setCopySources();
  if (coordinates()) beginCopies();  // the generation before may not have had the time
  if (state_ == run::v1::RECOVERING) setState(run::v1::RUNNING);
  ToWorker message;
  message.mutable_go();
  workers_.sendAll(message);
  if (checkpoints_.copied() > 0) tellCopied();
  // The checkpoint that a generation began from has no copies on its own nodes.
  const bool isUncopied = recover_.has_members() && !copiedNodes(request_).empty();
  if (awaitsCheckpoint() || checkpointAsked_ || (coordinates() && isUncopied)) regroupSoon();
  answerKept();  // other nodes may be needed for it now
}

}  // namespace lockstep::agent
