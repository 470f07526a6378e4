// RunControl: restarts of a run after a failure.
#include <signal.h>

#include <algorithm>

#include "agent/base/grpc_status.h"
#include "agent/supervisor/run_control.h"
#include "engine/runtime/checkpoint.h"

namespace lockstep::agent {

using node::v1::ToPeer;

void RunControl::failed(const Error& error) {
  if (outcome_) return;
  const bool trained = gone_ || generation_ > request_.generation();
  if (!trained || stopping_) {
    abort(error);
    return;
  }
  if (const auto end = recovery_.ends(error, furthest_))
    abort(*end);
  else
    recover(error);
}

void RunControl::recover(const Error& cause) {
  restarting_ = true;
  ToPeer message;
  node::v1::Recover& recover = *message.mutable_recover();
  recover.set_from_checkpoints(runtime::newestCheckpoint(checkpointFolder()).ok());
  recover.set_pause_ns(recovery_.pause());
  run::v1::Record record;
  record.mutable_recovering()->set_generation(generation_ + 1);
  *record.mutable_recovering()->mutable_cause() = toInfo(cause);
  spool_.append(std::move(record));
  say(fmt::format("restarts as generation {}: {}", generation_ + 1, cause.text()));
  beginGeneration(generation_ + 1, recover);
  tellPeers(message);
}

// At every node. What is under way between nodes and workers is of the generation before.
void RunControl::beginGeneration(int generation, const node::v1::Recover& recover) {
  if (outcome_) return;
  generation_ = generation;
  recover_ = recover;
  if (state_ != run::v1::RECOVERING) setState(run::v1::RECOVERING);
  if (server_) server_->setGeneration(generation);
  if (client_) client_->setGeneration(generation);
  ready_ = gone_ = sentCascading_ = false;
  doneStatus_.clear();
  told_.reset();
  pendingCause_.reset();
  for (EventLoop::TimerId* timer : {&graceTimer_, &formation_}) {
    loop_.cancel(*timer);
    *timer = 0;
  }
  kv_ = {};
  kvAsked_.clear();
  kvTold_.clear();
  for (auto& [name, peer] : peers_) {
    peer.ready = false;
    peer.done.clear();
  }
  if (evaluates()) {
    localReady();
    return;
  }
  leaving_ = true;
  signalAll(SIGKILL);
  if (workersGone()) loop_.post([this] { startGeneration(); });
}

// The workers of the generation before are gone.
void RunControl::startGeneration() {
  if (outcome_ || !leaving_ || !workersGone()) return;
  workers_.clear();
  loop_.after(recover_.pause_ns(), [this, generation = generation_] {
    if (outcome_ || !leaving_ || generation != generation_) return;
    leaving_ = false;
    form();
  });
}

void RunControl::noteFirstSteps(const run::v1::StepChunk& steps) {
  if (restarting_ && !leaving_) {
    run::v1::Record record;
    run::v1::Recovered& recovered = *record.mutable_recovered();
    recovered.set_generation(generation_);
    recovered.set_step(steps.first_step());
    recovered.set_lost_steps(std::max<std::int64_t>(0, furthest_ - steps.first_step() + 1));
    recovered.set_seconds(static_cast<double>(monotonicNow() - failedAt_) * 1e-9);
    say(fmt::format("trains again from step {} after {:.1f} s", recovered.step(),
                    recovered.seconds()));
    spool_.append(std::move(record));
    restarting_ = false;
    failedAt_ = 0;
  }
  furthest_ = std::max(furthest_, steps.first_step() + steps.loss_size() - 1);
}

}  // namespace lockstep::agent
