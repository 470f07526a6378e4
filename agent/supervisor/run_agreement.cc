// RunControl: agreement among the run's nodes, and how a run ends.
#include <signal.h>

#include "agent/base/grpc_status.h"
#include "agent/supervisor/run_control.h"
#include "agent/worker/prepare.h"
#include "engine/base/log.h"

namespace lockstep::agent {
namespace {

using node::v1::FromPeer;
using node::v1::ToPeer;
using node::v1::ToWorker;

constexpr Nanoseconds kClockInterval = 2'000'000'000;  // between two records of the clock offset

bool isCancelled(const Error& error) { return error.code == Code::kCancelled; }
bool isTimeout(const Error& error) { return error.code == Code::kDeadlineExceeded; }

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
    return;
  }
  if (!peers_.contains(node) && !takeBack(node)) return refuse(node);
  Peer& peer = peers_[node];
  peer.joined = true;
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
  if (checkpoints_.awaits(node)) {
    message.mutable_copy_checkpoint()->set_step(checkpoints_.step());
    server_->send(node, message);
  }
  if (profiled_.count() > 0) {
    *message.mutable_profile() = profiled_;
    server_->send(node, message);
  }
  if (canGrow()) regroupSoon();
  if (isEvaluator(node)) tellEvaluator();
  if (stopping_) {
    message.mutable_stop();
    server_->send(node, message);
  }
  if (aborted_) {
    *message.mutable_abort()->mutable_error() = toInfo(abortedWith_);
    server_->send(node, message);
  } else if (outcome_) {
    message.mutable_all_done()->set_state(*outcome_);
    server_->send(node, message);
  }
}

void RunControl::onPeerLeave(const std::string& node) {
  if (!peers_.contains(node)) return;
  Peer& peer = peers_[node];
  peer.joined = false;
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

void RunControl::onPeerMessage(const std::string& node, const FromPeer& message) {
  if (!coordinates() && message.has_vote())
    succession_.onVote(node, message.generation(), monotonicNow());
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
      if (error.node.empty()) error.node = node;
      noteFailure(std::move(error), message.cascading());
      break;
    }
    case FromPeer::kDone:
      peer.done = message.done().status();
      checkDone();
      break;
    case FromPeer::kCheckpointGet: {
      if (!isEvaluator(node)) break;
      ToPeer part;
      *part.mutable_checkpoint_part() = evaluations_->part(message.checkpoint_get());
      server_->send(node, part);
      break;
    }
    case FromPeer::kEvaluated:
      if (isEvaluator(node)) onEvaluated(message.evaluated());
      break;
    case FromPeer::kStalled:
      hangs_.onStalled(message.stalled());
      break;
    case FromPeer::kCopied:
      noteCopied(node, message.copied());
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
  electorate_ = nodesOf(request_);
  const bool isFirst = generation_ == request_.generation();
  std::erase_if(electorate_, [&](const std::string& name) {
    const bool mayVote = isFirst || name == request_.node() || hasRanks(name) || answers(name);
    return returned_.contains(name) || !mayVote;
  });
  ToPeer message;
  *message.mutable_go() = goMessage();
  tellPeers(message);
  go();
}

void RunControl::checkDone() {
  if (!coordinates() || doneStatus_.empty() || outcome_) return;
  bool stopped = stopping_ || doneStatus_ == "stopped";
  for (const auto& [name, peer] : peers_) {
    if (!hasRanks(name)) continue;
    if (peer.done.empty()) return;
    stopped = stopped || peer.done == "stopped";
  }
  if (!stopped && evaluations_ && evaluations_->awaited()) {
    if (lastEvaluation_ != 0) return;
    say(fmt::format("waits for node {} to evaluate the last epoch", evaluations_->node()));
    lastEvaluation_ = loop_.after(limits_.lastEvaluation, [this] {
      if (!outcome_)
        evaluatorLost(message("the last epoch was not evaluated within {} s of the training's end",
                              limits_.lastEvaluation / 1'000'000'000));
    });
    return;
  }
  outcome_ = stopped ? run::v1::STOPPED : run::v1::SUCCEEDED;
  ToPeer message;
  message.mutable_all_done()->set_state(*outcome_);
  tellPeers(message);
  finishWhenGone();
}

void RunControl::noteFailure(Error error, bool cascading) {
  if (outcome_) return;
  if (failedAt_ == 0) failedAt_ = monotonicNow();
  if (!cascading) {
    failed(error, !isTimeout(error) && !error.node.empty());
    return;
  }
  // A rank that timed out is nearer to the cause than one that heard of another's failure.
  if (!pendingCause_ || (isTimeout(error) && !isTimeout(*pendingCause_)))
    pendingCause_ = std::move(error);
  if (graceTimer_ != 0) return;
  graceTimer_ = loop_.after(limits_.grace, [this] {
    if (outcome_) return;
    Error first = *pendingCause_;
    for (const auto& [name, peer] : peers_) {
      if (peer.joined || !peer.done.empty() || !hasRanks(name)) continue;
      first.why = message("node {} was lost: its supervisor does not answer\n{}", name, first.why);
      first.node = name;
      first.rank = -1;
      break;
    }
    if (hangs_.found() && isTimeout(first)) {  // its cause
      Error hang = *hangs_.found();
      hang.why = message("{}\n{}", hang.why, first.what);
      first = std::move(hang);
    }
    failed(first, false);
  });
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
      succession_.setListeners({message.go().listeners().begin(), message.go().listeners().end()});
      electorate_.assign(message.go().electorate().begin(), message.go().electorate().end());
      takeCluster(message.go().cluster());
      go();
      break;
    case ToPeer::kEvaluate:
      if (evaluator_ && !outcome_) evaluator_->onNewest(message.evaluate());
      break;
    case ToPeer::kCheckpointPart:
      if (evaluator_ && !outcome_) evaluator_->onPart(message.checkpoint_part());
      break;
    case ToPeer::kCopyCheckpoint:
      if (copies_) copies_->copy(message.copy_checkpoint().step());
      break;
    case ToPeer::kCopied:
      onAllCopied(message.copied().step());
      break;
    case ToPeer::kProfile:
      profileHere(message.profile());
      break;
    case ToPeer::kReadStacks:
      readStacks(message.read_stacks().rank());
      break;
    case ToPeer::kStop:
      beginStop();
      break;
    case ToPeer::kAbort:
      say("ends its part: " + fromInfo(message.abort().error()).text());
      abort(fromInfo(message.abort().error()));
      break;
    case ToPeer::kAllDone:
      if (outcome_) break;
      outcome_ = message.all_done().state();
      finishWhenGone();
      break;
    case ToPeer::kKvValue:
      rendezvous_.onValue(message.kv_value());
      break;
    case ToPeer::kPong: {
      const Nanoseconds now = monotonicNow();
      const Nanoseconds sent = message.pong().sent_ns();
      if (now - clockNoted_ < kClockInterval) break;
      clockNoted_ = now;
      run::v1::Record record;
      record.mutable_clock()->set_offset_ns(message.pong().here_ns() - (sent + (now - sent) / 2));
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
  if (state_ == run::v1::RECOVERING) setState(run::v1::RUNNING);
  ToWorker message;
  message.mutable_go();
  workers_.sendAll(message);
  if (checkpoints_.copied() > 0) tellCopied();
  // The checkpoint that a generation began from has no copies on its own nodes.
  const bool isUncopied = recover_.has_members() && !copiedNodes(request_).empty();
  if (awaitsCheckpoint() || (coordinates() && isUncopied)) regroupSoon();
}

Status RunControl::stop(const std::string& run, int generation) {
  LOCKSTEP_TRY(check(run, generation));
  if (outcome_) return {};
  if (!coordinates()) {
    Error error = makeError(Code::kFailedPrecondition, "node {} does not coordinate the run",
                            request_.node());
    error.next = "stop the run at its first node";
    return error;
  }
  if (!gone_)
    return kill(run, generation,
                generation_ > request_.generation() ? "stopped while it recovered"
                                                    : "stopped before it began");
  ToPeer message;
  message.mutable_stop();
  tellPeers(message);
  beginStop();
  return {};
}

void RunControl::beginStop() {
  if (stopping_ || outcome_) return;
  stopping_ = true;
  setState(run::v1::STOPPING);
  ToWorker message;
  message.mutable_stop();
  workers_.sendAll(message);
  if (coordinates()) checkDone();  // it may wait for the last evaluation alone
  if (outcome_) return;
  const RunLimits::Stop limits = ofProgram() ? limits_.stopProgram : limits_.stop;
  loop_.after(limits.term, [this] {
    if (outcome_ || workers_.gone()) return;
    say("the workers did not leave in time after the stop: asking them with SIGTERM");
    forced_ = true;
    workers_.signalAll(SIGTERM);
  });
  loop_.after(limits.kill, [this] {
    if (outcome_ || workers_.gone()) return;
    say("the workers did not leave after SIGTERM: SIGKILL");
    forced_ = true;
    workers_.signalAll(SIGKILL);
  });
}

Status RunControl::kill(const std::string& run, int generation, const Message& why) {
  LOCKSTEP_TRY(check(run, generation));
  if (outcome_) return {};
  say("the run is ended at once: " + why.text());
  Error error = makeError(Code::kCancelled, "the run was killed");
  error.why = why;
  error.node = request_.node();
  if (!evaluates()) localFailure(error, false);  // without it the others go on
  if (!coordinates()) abort(error);              // without the coordinator's answer
  return {};
}

void RunControl::localDone() {
  doneStatus_ = workers_.anyStopped() ? "stopped" : "succeeded";
  if (coordinates()) {
    checkDone();
    return;
  }
  FromPeer message;
  message.mutable_done()->set_status(doneStatus_);
  if (client_) client_->send(std::move(message));
}

void RunControl::localFailure(Error error, bool cascading) {
  if (outcome_) return;
  if (error.node.empty()) error.node = request_.node();
  if (coordinates()) {
    noteFailure(std::move(error), cascading);
    return;
  }
  // A cause that comes after its cascading failure is sent too.
  if (told_ && (cascading || !sentCascading_)) return;
  told_ = error;
  sentCascading_ = cascading;
  FromPeer message;
  *message.mutable_failed() = toInfo(error);
  message.set_cascading(cascading);
  if (client_) client_->send(std::move(message));
  // The coordinator answers with the run's error. Where it cannot, this one is it.
  loop_.after(limits_.lostPeer, [this, generation = generation_] {
    if (!outcome_ && generation == generation_) endAlone(*told_);
  });
}

void RunControl::abort(const Error& error) {
  if (outcome_) return;
  aborted_ = true;
  abortedWith_ = error;
  const bool wanted = isCancelled(error);
  const bool expired = !committed_ && wanted;
  outcome_ = expired ? run::v1::EXPIRED : wanted ? run::v1::STOPPED : run::v1::FAILED;
  if (committed_ && expired) outcome_ = run::v1::STOPPED;
  if (!wanted) {
    run::v1::Record record;
    *record.mutable_error() = toInfo(error);
    spool_.append(std::move(record));
    logError("{}", error.text());
  }
  ToPeer message;
  *message.mutable_abort()->mutable_error() = toInfo(error);
  tellPeers(message);
  if (wanted)
    workers_.signalAll(SIGKILL);
  else
    endWorkers();
  finishWhenGone();
}

void RunControl::finishWhenGone() {
  if (over_ || !outcome_ || !workers_.gone()) return;
  over_ = true;
  workers_.freeCores();
  evaluator_.reset();
  loop_.post([this] { finish(); });  // not from within a worker's own handler
}

void RunControl::finish() {
  run::v1::Finished finished = workers_.finished();
  finished.set_state(*outcome_);
  finished.set_alone(*outcome_ == run::v1::FAILED && coordinates() && trained() &&
                     continuesWithoutAny() && !hasQuorum());
  if (evaluations_ && evaluations_->last() &&
      (evaluations_->complete() || *outcome_ != run::v1::SUCCEEDED)) {
    finished.set_eval_loss(evaluations_->last()->eval_loss());
    finished.set_eval_metric(evaluations_->last()->eval_metric());
  }
  if (finished.steps() == 0) finished.set_steps(std::max(workers_.lastStep(), furthest_));
  run::v1::Record record;
  *record.mutable_finished() = std::move(finished);
  setState(*outcome_);  // before anyone can read of the end and act on it
  spool_.append(std::move(record));
  if (Status status = spool_.flush(); !status.ok()) logWarning("{}", status.error().text());
  rendezvous_.dropWaiting();
  workers_.clear();
  // Kept for a moment, so that what was said last goes out.
  loop_.after(1'000'000'000, [this] {
    client_.reset();
    candidate_.reset();
  });
  onOver_();
}

}  // namespace lockstep::agent
