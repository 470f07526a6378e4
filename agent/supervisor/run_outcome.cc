// RunControl: how a run ends: done, stopped, killed, or with an error; and how the errors of its
// nodes become one.
#include <signal.h>

#include <algorithm>
#include <utility>

#include "agent/base/grpc_status.h"
#include "agent/supervisor/run_control.h"
#include "engine/base/log.h"
#include "engine/specs/error_info.h"

namespace lockstep::agent {
namespace {

using node::v1::FromPeer;
using node::v1::ToPeer;
using node::v1::ToWorker;

bool isCancelled(const Error& error) { return error.code == Code::kCancelled; }
bool isTimeout(const Error& error) { return error.code == Code::kDeadlineExceeded; }

// Orders cascading failures by how much they tell about the cause: most a timeout, then a lost
// connection, least that another rank has failed.
int nearness(const Error& error) {
  return isTimeout(error) ? 2 : error.code == Code::kUnavailable ? 1 : 0;
}

}  // namespace

// ---- at the coordinator

void RunControl::checkDone() {
  if (!coordinates() || outcome_) return;
  hurryCopies();
  if (doneStatus_.empty()) return;
  bool stopped = stopping_ || doneStatus_ == "stopped";
  for (const auto& [name, peer] : peers_) {
    if (!hasRanks(name)) continue;
    if (peer.done.empty()) return;
    stopped = stopped || peer.done == "stopped";
  }
  if (stopped) decideEnd(run::v1::STOPPED);
  if (awaitsLast(stopped)) return;
  if (!stopped) decideEnd(run::v1::SUCCEEDED);
  endOnceKept();
}

// Whether a run whose ranks have ended waits for the copies of its last checkpoint; one that is
// trained to its end also for its last evaluation, and then for copies of its model. Each has a
// limit from the ranks' end.
bool RunControl::awaitsLast(bool stopped) {
  if (endsAtOnce_) return false;
  Message awaited;
  if (!stopped && evaluations_ && evaluations_->awaited()) {
    const Nanoseconds limit = limits_.lastEvaluation / 1'000'000'000;
    awaited = message("waits for node {} to evaluate the last epoch, for {} s at most",
                      evaluations_->node(), limit);
    if (lastEvaluation_ == 0)
      lastEvaluation_ = loop_.after(limits_.lastEvaluation, [this, limit] {
        if (outcome_) return;
        evaluatorLost(
            message("the last epoch was not evaluated within {} s of the training's end", limit));
      });
  }
  if (!stopped && checkpoints_.step() == 0) beginModelCopies();
  if (checkpoints_.step() != 0 || !modelAwaited_.empty()) {
    const Nanoseconds limit = limits_.lastCopies / 1'000'000'000;
    const Message copies =
        checkpoints_.step() == 0
            ? message("waits for a copy of the trained model on another node, for {} s at most",
                      limit)
            : message(
                  "waits for copies of the checkpoint at step {} on other nodes, for {} s at "
                  "most",
                  checkpoints_.step(), limit);
    awaited = awaited.empty() ? copies : message("{}; {}", awaited, copies);
    if (lastCopies_ == 0) lastCopies_ = loop_.after(limits_.lastCopies, [this] { giveUpCopies(); });
  }
  tellAwaited(awaited);
  return !awaited.empty();
}

void RunControl::tellAwaited(const Message& awaited) {
  const std::string text = awaited.text();
  if (text == std::exchange(toldAwaited_, text)) return;
  if (!text.empty()) say(text);
  run::v1::Record record;
  *record.mutable_awaited() = specs::toText(awaited);
  spool_.append(std::move(record));
}

void RunControl::giveUpCopies() {
  if (outcome_ || (checkpoints_.step() == 0 && modelAwaited_.empty())) return;
  warnNotCopied(Code::kDeadlineExceeded,
                message("the copies were not there within {} s of the training's end",
                        limits_.lastCopies / 1'000'000'000));
  checkpoints_.giveUp();
  modelAwaited_.clear();
  copiesModel_ = true;
  checkDone();
}

// A node that is lost while the run's end waits for its copies. The others go on.
void RunControl::giveUpCopiesOf(const std::string& node) {
  if (outcome_ || lastCopies_ == 0) return;
  node::v1::CheckpointCopied failed;
  failed.set_step(checkpoints_.step());
  failed.set_model(modelAwaited_.contains(node));
  failed.set_failed(true);
  if (!failed.model() && !checkpoints_.awaits(node)) return;
  warnNotCopied(Code::kUnavailable, message("node {} does not answer", node));
  noteCopied(node, failed);
}

void RunControl::warnNotCopied(Code code, const Message& why) {
  const std::int64_t step = checkpoints_.step();
  Error warning = makeError(code, "the trained model is not copied");
  warning.next = "if that node is lost, resume the run: it ends with the same model";
  if (step != 0) {
    warning = makeError(code, "the checkpoint at step {} is not copied", step);
    warning.next = "a node whose disk is lost now takes its part of the checkpoint with it";
    warning.step = step;
  }
  warning.why = why;
  warning.node = request_.node();
  warn(std::move(warning));
}

void RunControl::noteFailure(Error error, bool cascading) {
  if (outcome_) return;
  if (failedAt_ == 0) failedAt_ = monotonicNow();
  if (!cascading) {
    failed(error, !isTimeout(error) && !error.node.empty());
    return;
  }
  if (!pendingCause_ || nearness(error) > nearness(*pendingCause_))
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
    if (hangs_.found() && isTimeout(first)) {  // the ranks timed out because one hangs
      Error hang = *hangs_.found();
      hang.code = first.code;
      hang.why = message("{}\n{}", hang.why, first.what);
      first = std::move(hang);
    }
    failed(first, false);
  });
}

// ---- at every node

Status RunControl::stop(const node::v1::StopRequest& request) {
  const std::string& run = request.run();
  const int generation = request.generation();
  LOCKSTEP_TRY(check(run, generation));
  if (outcome_) return {};
  if (!coordinates()) {
    Error error = makeError(Code::kFailedPrecondition, "node {} does not coordinate the run",
                            request_.node());
    error.next = "stop the run at its first node";
    return error;
  }
  if (decidedEnd_ == run::v1::SUCCEEDED) return {};
  if (!gone_)
    return kill(run, generation,
                generation_ > request_.generation() ? "stopped while it recovered"
                                                    : "stopped before it began");
  // A second stop, and one of a run that only waits, ends the wait.
  const bool isSecond = stopping_ && !request.repeated();
  const bool onlyWaits = !stopping_ && !toldAwaited_.empty();
  if (request.at_once() || isSecond || onlyWaits) endsAtOnce_ = true;
  if (stopping_) {
    checkDone();
    return {};
  }
  beginStop();
  return {};
}

void RunControl::beginStop() {
  if (stopping_ || outcome_) return;
  stopping_ = true;
  setState(run::v1::STOPPING);
  if (coordinates()) tellDecisions();
  ToWorker message;
  message.mutable_stop();
  workers_.sendAll(message);
  checkDone();  // its ranks may have ended
  if (outcome_) return;
  const auto isOver = [this, generation = generation_] {
    return aborted_ || generation != generation_ || workers_.gone();
  };
  const RunLimits::Stop limits = ofProgram() ? limits_.stopProgram : limits_.stop;
  loop_.after(limits.term, [this, isOver] {
    if (isOver()) return;
    say("the workers did not leave in time after the stop: asking them with SIGTERM");
    forced_ = true;
    workers_.signalAll(SIGTERM);
  });
  loop_.after(limits.kill, [this, isOver] {
    if (isOver()) return;
    say("the workers did not leave after SIGTERM: SIGKILL");
    forced_ = true;
    workers_.signalAll(SIGKILL);
  });
}

// A node was lost before all ranks had ended, so that their last checkpoint may not be whole.
void RunControl::warnOfStopWithout(Error lost) {
  lost.next = "resume the run from its last checkpoint, or launch it again where it has none";
  warn(std::move(lost));
}

Status RunControl::kill(const std::string& run, int generation, const Message& why) {
  LOCKSTEP_TRY(check(run, generation));
  if (outcome_) {  // ranks may still be saving something
    workers_.signalAll(SIGKILL);
    return {};
  }
  say("the run is ended at once: " + why.text());
  const Error error = killedError(why);
  if (coordinates()) {
    killEverywhere(error);
    return {};
  }
  if (!evaluates()) localFailure(error, false);  // without it the others go on
  abort(error);                                  // without the coordinator's answer
  return {};
}

Error RunControl::killedError(const Message& why) const {
  Error error = makeError(Code::kCancelled, "the run was killed");
  error.why = why;
  error.node = request_.node();
  return error;
}

// At the coordinator. Its workers end at once. Where no majority confirms that it knows, others may
// go on.
void RunControl::killEverywhere(const Error& error) {
  killed_ = awaitsKept_ = true;
  tellDecisions();
  abort(error);
  whenKept(limits_.kept, [this](const Status& kept) {
    agreed_ = kept.ok();
    alone_ = !agreed_;
    awaitsKept_ = false;
    finishWhenGone();
  });
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
  if (request_.ranks().empty() && !evaluates()) return;  // a spare: the run goes on
  // The coordinator answers with the run's error. Where it cannot, this one is it.
  loop_.after(limits_.lostPeer, [this, generation = generation_] {
    if (!outcome_ && generation == generation_ && told_) endAlone(*told_);
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
  if (over_ || !outcome_ || awaitsKept_ || !workers_.gone()) return;
  over_ = true;
  workers_.freeCores();
  evaluator_.reset();
  loop_.post([this] { finish(); });  // not from within a worker's own handler
}

void RunControl::finish() {
  if (outcome_ == run::v1::FAILED && coordinates() && trained() && continuesWithoutAny())
    alone_ = !hasQuorum();
  run::v1::Finished finished = workers_.finished();
  finished.set_state(*outcome_);
  finished.set_agreed(agreed_);
  finished.set_alone(alone_);
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
  answerKept();
  workers_.clear();
  // Kept for a moment, so that what was said last goes out.
  loop_.after(1'000'000'000, [this] {
    client_.reset();
    candidate_.reset();
  });
  onOver_();
}

}  // namespace lockstep::agent
