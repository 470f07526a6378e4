// RunControl: restarts of a run after a failure.
#include <signal.h>

#include <algorithm>

#include "agent/base/grpc_status.h"
#include "agent/supervisor/run_control.h"
#include "agent/worker/prepare.h"
#include "engine/base/file.h"
#include "engine/plan/batch_shares.h"
#include "engine/plan/plan.h"
#include "engine/specs/workload.h"

namespace lockstep::agent {

using node::v1::ToPeer;

namespace {

// How the plan divides the batch; nothing of a program of the user's own.
void addSamples(const std::string& planText, int world, run::v1::Recovering& recovering) {
  const auto plan = plan::parse(planText);
  if (!plan.ok()) return;
  for (const double samples : plan::BatchShares(*plan).of(world))
    recovering.add_samples(static_cast<std::int64_t>(samples));
}

}  // namespace

bool RunControl::hasRanks(const std::string& node) const {
  const auto nodes = specs::nodesWithRanks(request_.cluster(), request_.spec().strategy());
  return std::any_of(nodes.begin(), nodes.end(),
                     [&](const spec::v1::NodeSpec* one) { return one->name() == node; });
}

bool RunControl::answers(const std::string& node) const {
  const auto peer = peers_.find(node);
  return peer != peers_.end() && peer->second.joined && !peer->second.heard.silent &&
         !peer->second.failed;
}

// A program that exits within a minute of its first start, before a value, would do so again.
bool RunControl::failsAtOnce(const Error& error) const {
  constexpr Nanoseconds kSoon = 60'000'000'000;
  return ofProgram() && error.field == "workload.command" && furthest_ == 0 &&
         generation_ == request_.generation() && monotonicNow() - programBegan_ < kSoon;
}

// A program may report no steps: then a generation that ran for ten minutes counts as progress.
void RunControl::noteProgramProgress() {
  constexpr Nanoseconds kLong = 600'000'000'000;
  if (ofProgram() && gone_ && monotonicNow() - programBegan_ > kLong) recovery_.noteProgress();
}

// A node that is lost may be why the ranks of others have failed, or wait.
FailureKind RunControl::kindOf(const Error& error) const {
  for (const auto& [node, peer] : peers_)
    if (hasRanks(node) && peer.done.empty() &&
        (peer.heard.silent || (!peer.joined && peer.heard.last != 0)))
      return FailureKind::kNodeLost;
  return error.code == Code::kDeadlineExceeded ? FailureKind::kHang : FailureKind::kExit;
}

void RunControl::failed(const Error& error, bool byNode, Nanoseconds since) {
  if (outcome_) return;
  if (!trained() || stopping_ || !restartMayHelp(error.code)) {
    abort(error);
    return;
  }
  // A node that is late may be the cause: it is heard of soon, or found silent and replaced. A
  // minority waits for the others, or ends.
  const bool isMinority = continuesWithoutAny() && !hasQuorum();
  if (since == 0) since = monotonicNow();  // failedAt_ is that of the first of several failures
  if (isMinority && monotonicNow() - since > limits_.lostPeer) return abort(error);
  if (anyLate() || isMinority) {
    loop_.after(heartbeat_, [this, error, byNode, since, generation = generation_] {
      if (generation == generation_) failed(error, byNode, since);
    });
    return;
  }
  noteProgramProgress();
  if (failsAtOnce(error)) return abort(error);
  std::vector<std::string> nodes;
  if (byNode) nodes.push_back(error.node);
  if (const auto end = recovery_.ends(error, kindOf(error), furthest_, nodes)) return abort(*end);
  if (byNode && recovery_.failsRepeatedly(error.node)) excludeFailing(error.node);
  if (!mayExcludeNow() || !excludeAfter(error)) recover(error);
}

bool RunControl::replaceLost(const std::vector<std::string>& lost) {
  const bool isWanted =
      mayExcludeNow() && std::all_of(lost.begin(), lost.end(), [&](const std::string& node) {
        return requests_.isExcluding(node);
      });
  if (!trained() || stopping_) return false;
  if (isWanted && hasQuorum()) return excludeAfter(lostError(lost));
  if (!restartsAfter(FailureKind::kNodeLost, specs::recoveryOf(request_.spec()))) return false;
  std::vector<std::string> tried = lost;
  for (const auto* spare : specs::spareNodes(request_.cluster()))
    if (answers(spare->name())) tried.push_back(spare->name());
  const std::string key = fmt::format("{}", fmt::join(tried, " "));
  if (key == keptOut_) return false;
  if (!hasQuorum()) {
    if (!std::exchange(toldMinority_, true))
      say("fewer than half of the run's nodes answer, so it does not continue here");
    return false;
  }
  toldMinority_ = false;
  const auto members =
      membersWithout(lost, request_, [this](const std::string& node) { return answers(node); });
  if (!members.ok()) {
    keptOut_ = key;
    say(fmt::format("the run cannot continue without {}: {}", fmt::join(lost, ", "),
                    members.error().text()));
    return false;
  }
  if (failedAt_ == 0) failedAt_ = peers_[lost.front()].heard.last;
  Error error = lostError(lost);
  noteProgramProgress();
  // If half of the nodes fall silent at once, the fault may be in this half's own network: no node
  // is blamed.
  const bool byThem = 2 * lost.size() < largest(electorates_);
  if (const auto end = recovery_.ends(error, FailureKind::kNodeLost, furthest_,
                                      byThem ? lost : std::vector<std::string>())) {
    abort(*end);
    return true;
  }
  leaveOutLost(lost, error);
  recover(error, *members);
  return true;
}

// Excludes those of them that fail again and again, which is added to the error.
void RunControl::leaveOutLost(const std::vector<std::string>& lost, Error& error) {
  for (const std::string& node : lost) {
    if (recovery_.failsRepeatedly(node)) {
      requests_.excludeFailing(node);
      error.why = message("{}; {}", error.why, failingText(recovery_, node));
    }
    leaveOut(node);
  }
}

// The node joins again if it answers later. One that is excluded is told to end its part.
void RunControl::leaveOut(const std::string& node) {
  if (requests_.onLeftOut(node)) {
    recovery_.noteExcluded(node);
    refuse(node);
  } else {
    server_->drop(node);
  }
  loop_.cancel(peers_[node].lost);
  peers_.erase(node);
}

// It ends its part. Then its stream is dropped.
void RunControl::refuse(const std::string& node) {
  ToPeer message;
  *message.mutable_abort()->mutable_error() =
      toInfo(makeError(Code::kCancelled, "the run continues without node {}", node));
  server_->send(node, message);
  loop_.after(heartbeat_, [this, node] { server_->drop(node); });
}

void RunControl::recover(const Error& cause, const std::optional<node::v1::Members>& members) {
  restarting_ = true;
  if (members) checkpoints_.onMembersChange();
  ToPeer message;
  node::v1::Recover& recover = *message.mutable_recover();
  // Of a checkpoint without copies, a lost node may have had what no other has.
  recover.set_from_checkpoints(members && !copiedNodes(request_).empty() ? checkpoints_.isCopied()
                                                                         : checkpoints_.exists());
  recover.set_copied(checkpoints_.isCopied() && recover.from_checkpoints());
  recover.set_pause_ns(recovery_.pause());
  *recover.mutable_failures() = recovery_.past();
  for (const std::string& node : requests_.excluded()) recover.add_excluded(node);
  if (members)
    *recover.mutable_members() = *members;
  else if (recover_.has_members())
    *recover.mutable_members() = recover_.members();
  run::v1::Record record;
  run::v1::Recovering& recovering = *record.mutable_recovering();
  recovering.set_generation(generation_ + 1);
  *recovering.mutable_cause() = toInfo(cause);
  if (members) {
    node::v1::PrepareRequest next = request_;
    static_cast<void>(apply(*members, next));  // planned here, so of few enough ranks
    const auto ranks = ranksByNode(next);
    int world = 0;
    for (const auto& [node, own] : ranks) world += static_cast<int>(own.size());
    if (ranks != ranksByNode(request_)) {
      for (const auto& [node, own] : ranks) recovering.add_nodes(node);
      recovering.set_world(world);
    }
    if (nodesOf(request_).front() != request_.node()) recovering.set_coordinator(request_.node());
    addSamples(members->plan(), world, recovering);
    if (recovering.cause().step() < 0 && furthest_ > 0)
      recovering.mutable_cause()->set_step(furthest_);
  }
  spool_.append(std::move(record));
  say(fmt::format("restarts as generation {}: {}", generation_ + 1, cause.text()));
  beginGeneration(generation_ + 1, recover);
  tellPeers(message);
  tellDecisions();
}

// At every node. What is under way between nodes and workers is of the generation before.
void RunControl::beginGeneration(int generation, const node::v1::Recover& recover) {
  if (outcome_) return;
  if (recover.has_members())
    if (Status applied = apply(recover.members(), request_); !applied.ok())
      return localFailure(applied.error(), false);
  generation_ = generation;
  recover_ = recover;
  checkpoints_.beginGeneration(recover.from_checkpoints(), recover.copied());
  copiesModel_ = false;
  modelAwaited_.clear();
  if (state_ != run::v1::RECOVERING) setState(run::v1::RECOVERING);
  if (server_) server_->setGeneration(generation, nodesOf(request_));
  if (client_) client_->setGeneration(generation);
  ready_ = gone_ = sentCascading_ = absent_ = false;
  doneStatus_.clear();
  told_.reset();
  pendingCause_.reset();
  succession_.clear(monotonicNow());
  returned_.clear();
  requests_.onRestart({recover.excluded().begin(), recover.excluded().end()});
  recovery_.continueFrom(recover.failures());
  decidedEnd_.reset();
  stopping_ = forced_ = false;
  cannotRebalance("the run has restarted before that");
  profiled_.Clear();
  hangs_.clear();
  stalled_.clear();
  endCopies();
  toldAwaited_.clear();
  for (EventLoop::TimerId* timer : {&pause_, &graceTimer_, &formation_, &absence_, &lostTimer_,
                                    &lastEvaluation_, &lastCopies_}) {
    loop_.cancel(*timer);
    *timer = 0;
  }
  rendezvous_.clear();
  for (auto& [name, peer] : peers_) {
    peer.ready = false;
    peer.done.clear();
  }
  if (evaluates()) {
    localReady();
    return;
  }
  leaving_ = true;
  endWorkers();
  if (workers_.gone()) loop_.post([this] { startGeneration(); });
}

// The workers of the generation before are gone.
void RunControl::startGeneration() {
  if (outcome_ || !leaving_ || !workers_.gone()) return;
  workers_.freeCores();
  if (absent_) return;
  workers_.clear();
  if (recover_.has_members()) {
    const Status written = writeFileAtomically(folder_.plan(), recover_.members().plan(), 0600);
    if (!written.ok()) return localFailure(written.error(), false);
  }
  constexpr Nanoseconds kLongest = 60'000'000'000;
  const auto pause = std::clamp<Nanoseconds>(recover_.pause_ns(), 0, kLongest);
  loop_.cancel(pause_);
  pause_ = loop_.after(pause, [this] {
    if (outcome_ || !leaving_ || absent_) return;
    leaving_ = false;
    form();
  });
}

// The run trains again: from this step; 0: it is not known, of a program of the user's own.
void RunControl::noteRecovered(std::int64_t step) {
  if (!restarting_ || leaving_) return;
  run::v1::Record record;
  run::v1::Recovered& recovered = *record.mutable_recovered();
  recovered.set_generation(generation_);
  recovered.set_step(step);
  if (step > 0) recovered.set_lost_steps(std::max<std::int64_t>(0, furthest_ - step + 1));
  recovered.set_seconds(static_cast<double>(monotonicNow() - failedAt_) * 1e-9);
  say(step > 0 ? fmt::format("trains again from step {} after {:.1f} s", step, recovered.seconds())
               : fmt::format("the program runs again after {:.1f} s", recovered.seconds()));
  spool_.append(std::move(record));
  restarting_ = false;
  failedAt_ = 0;
}

void RunControl::noteFirstSteps(const run::v1::StepChunk& steps) {
  noteRecovered(steps.first_step());
  furthest_ = std::max(furthest_, steps.first_step() + steps.loss_size() - 1);
  if (!coordinates()) return;
  if (steps.rank() != request_.ranks(0)) return;
  for (const std::int64_t duration : steps.duration_ns()) hangs_.noteStep(duration);
}

}  // namespace lockstep::agent
