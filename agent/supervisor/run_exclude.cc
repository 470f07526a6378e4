// RunControl: excludes nodes on request, for example one that makes the others wait, or because
// they fail again and again; divides the batch anew on request, so that slow ranks have less of it;
// and restarts all ranks on request.
//
// The run takes a checkpoint first, and copies of it, so that no step before it is lost. Then the
// next generation begins without the nodes, as if they had been lost. They are told to end their
// part, and again if they ask to be taken back. If the run fails before that checkpoint, it
// restarts without them only where the others have all parts of an earlier one. A restart of all
// ranks, and a division of the batch, are the same with the nodes that the run has. A program of
// the user's own restarts at once, from what it has saved itself.
#include <algorithm>
#include <cmath>
#include <set>

#include "agent/supervisor/run_control.h"
#include "agent/worker/prepare.h"
#include "engine/plan/pieces.h"
#include "engine/plan/plan.h"

namespace lockstep::agent {
namespace {

// Whether a checkpoint can be read without the disks of these nodes.
Result<bool> othersHaveAll(const node::v1::PrepareRequest& request, const std::string& planFile,
                           const std::vector<std::string>& nodes) {
  if (request.spec().has_workload() || !request.spec().training().checkpoint().path().empty())
    return true;
  if (!specs::takesCheckpoints(request.spec()))
    return true;  // without checkpoints, a restart begins at step 0
  const auto isOne = [&](const std::string& name) {
    return std::find(nodes.begin(), nodes.end(), name) != nodes.end();
  };
  std::set<std::string> kept;  // nodes whose part another has a copy of
  for (const auto& [holder, of] : copiedNodes(request))
    if (!isOne(holder)) kept.insert(of.begin(), of.end());
  LOCKSTEP_ASSIGN(const plan::Plan plan, readPlan(planFile));
  std::set<std::string> own, others;
  for (const auto& [name, ranks] : ranksByNode(request))
    for (const int rank : ranks)
      for (const plan::HeldPiece& held : plan::piecesHeldBy(plan, rank))
        (isOne(name) && !kept.contains(name) ? own : others).insert(held.piece.stored().name);
  return std::includes(others.begin(), others.end(), own.begin(), own.end());
}

}  // namespace

Status RunControl::mayExclude(const std::string& node) const {
  if (!ofProgram()) LOCKSTEP_TRY(checkTakesCheckpoints());
  LOCKSTEP_TRY(checkExcludable(node));
  Error refusal = makeError(Code::kFailedPrecondition, "node {} cannot be excluded now", node);
  refusal.node = node;
  return mustTrain(std::move(refusal));
}

Status RunControl::checkExcludable(const std::string& node) const {
  Error error = makeError(Code::kFailedPrecondition, "node {} cannot be excluded now", node);
  error.node = node;
  if (node == request_.node()) {
    error.why = "it coordinates the run";
    error.next = message("lockstep stop {}, then resume the run on other nodes", request_.run());
    return error;
  }
  if (!hasRanks(node)) {
    error.code = Code::kNotFound;
    error.why = "it has no ranks of the run";
    return error;
  }
  return {};
}

// Nodes that are excluded confirm nothing any more, so that the others have to decide without them.
Status RunControl::mayGoOnWithout(const std::vector<std::string>& nodes) const {
  const auto remains = [&](const std::string& name) {
    return std::find(nodes.begin(), nodes.end(), name) == nodes.end() &&
           (name == request_.node() || answers(name));
  };
  if (!continuesWithoutAny() || isQuorum(electorates_, remains)) return {};
  Error error =
      makeError(Code::kFailedPrecondition, "node {} cannot be excluded now", nodes.back());
  error.node = nodes.back();
  error.why = "fewer than half of the run's nodes would remain";
  error.next = "ask again once the run trains without those that it is to exclude already";
  return error;
}

Status RunControl::mustTrain(Error refusal) const {
  if (outcome_ || stopping_ || isEnding()) {
    refusal.why = "the run is ending";
    return refusal;
  }
  if (!gone_ || restarting_) {
    refusal.why = "the run is starting or restarting";
    refusal.next = "ask again when it trains";
    return refusal;
  }
  return {};
}

Status RunControl::restart(const std::string& run, int generation) {
  LOCKSTEP_TRY(check(run, generation));
  LOCKSTEP_TRY(checkCoordinates());
  if (!ofProgram()) LOCKSTEP_TRY(checkTakesCheckpoints());
  LOCKSTEP_TRY(mustTrain(
      makeError(Code::kFailedPrecondition, "the ranks of run {} cannot be restarted now", run)));
  requests_.restart(workers_.lastStep());
  say(ofProgram() ? "all ranks are restarted, on request"
                  : "all ranks are restarted after the next checkpoint, on request");
  regroupSoon();
  return {};
}

Status RunControl::rebalance(const std::string& run, int generation,
                             const std::vector<double>& shares) {
  LOCKSTEP_TRY(check(run, generation));
  LOCKSTEP_TRY(checkCoordinates());
  Error refusal = makeError(Code::kFailedPrecondition,
                            "the batch of run {} cannot be divided anew now", request_.run());
  if (ofProgram()) {
    refusal.why = "its program divides its batches itself";
    return refusal;
  }
  const auto& present = request_.spec().strategy().shares();
  const bool isDone = std::equal(present.begin(), present.end(), shares.begin(), shares.end());
  if (isDone && requests_.shares().empty()) return {};  // asked again, or as it is anyway
  LOCKSTEP_TRY(checkTakesCheckpoints());
  LOCKSTEP_TRY(mustTrain(std::move(refusal)));
  if (!shares.empty() && requests_.shares() == shares) return {};  // asked again
  for (const double share : shares)
    if (!std::isfinite(share) || share <= 0)
      return makeError(Code::kInvalidArgument, "a share of the batch is a number above 0");
  LOCKSTEP_TRY(membersSharing(shares, request_).status());
  requests_.rebalance(shares, workers_.lastStep());
  tellDecisions();
  say(fmt::format("the batch is divided as {} after the next checkpoint, on request",
                  fmt::join(shares, ", ")));
  regroupSoon();
  return {};
}

// As if the nodes were lost; if a person has asked, whatever recovery.policy is.
Result<node::v1::Members> RunControl::membersExcluding(
    const std::vector<std::string>& nodes) const {
  Error error =
      nodes.size() == 1
          ? makeError(Code::kFailedPrecondition, "node {} cannot be excluded now", nodes.front())
          : makeError(Code::kFailedPrecondition, "nodes {} cannot be excluded now",
                      fmt::join(nodes, ", "));
  error.node = nodes.back();
  LOCKSTEP_ASSIGN(const bool isSafe, othersHaveAll(request_, folder_.plan(), nodes));
  if (!isSafe) {
    error.why = "no other node has a copy of its part of the checkpoints";
    error.next = "launch the run with a greater training.checkpoint.copies";
    return error;
  }
  node::v1::PrepareRequest request = request_;
  if (!std::all_of(nodes.begin(), nodes.end(),
                   [this](const std::string& node) { return requests_.isFailing(node); }))
    request.mutable_spec()->mutable_recovery()->set_policy("shrink");
  auto members =
      membersWithout(nodes, request, [this](const std::string& one) { return answers(one); });
  if (members.ok()) return members;
  error.why = members.error().text();
  return error;
}

// Whether the others have all of the checkpoint that the run would restart from now.
bool RunControl::mayExcludeNow() const {
  if (requests_.excluding().empty()) return false;
  if (!copiedNodes(request_).empty()) return checkpoints_.isCopiedHere();
  // Without copies, a node that took another's place may not have what that one wrote.
  return !recover_.has_members() || ofProgram() ||
         !request_.spec().training().checkpoint().path().empty();
}

Status RunControl::exclude(const std::string& run, int generation, const std::string& node) {
  LOCKSTEP_TRY(check(run, generation));
  LOCKSTEP_TRY(checkCoordinates());
  // Asked again, as after an answer that was lost: it is done, or will be when the run trains.
  if (requests_.isExcluded(node) || (restarting_ && requests_.isExcluding(node))) return {};
  LOCKSTEP_TRY(mayExclude(node));
  if (requests_.isExcluding(node) && !requests_.isFailing(node)) return {};  // asked again
  std::vector<std::string> all = requests_.excluding();
  if (!requests_.isExcluding(node)) all.push_back(node);
  LOCKSTEP_TRY(mayGoOnWithout(all));
  LOCKSTEP_TRY(membersExcluding(all).status());
  requests_.exclude(node, workers_.lastStep());
  tellDecisions();
  say(ofProgram() ? fmt::format("node {} is excluded, on request", node)
                  : fmt::format("node {} is excluded after the next checkpoint, on request", node));
  regroupSoon();
  return {};
}

// After a checkpoint; at once where a program of the user's own has to do with its own.
void RunControl::regroupSoon() {
  hurryCopies();
  if (!ofProgram()) return checkpointNow();
  loop_.post([this] { regroup(furthest_); });
}

// At a failure: excludes the node, now or after the next checkpoint, if a spare can replace it or
// recovery.policy is shrink. Else it stays.
void RunControl::excludeFailing(const std::string& node) {
  if (node == request_.node() || !hasRanks(node) || !requests_.excluding().empty()) return;
  requests_.excludeFailing(node);
  if (const auto members = membersExcluding(requests_.excluding()); !members.ok()) {
    requests_.dropExclusions();
    say(fmt::format("{}, and stays: {}", recovery_.failuresText(node), members.error().text()));
  } else if (!mayExcludeNow()) {
    say(fmt::format("{}, and is excluded after the next checkpoint", recovery_.failuresText(node)));
  }
}

// After a failure.
bool RunControl::excludeAfter(Error failure) {
  const Message excluded = requests_.excludedText(recovery_);
  failure.why = failure.why.empty() ? excluded : message("{}\n{}", excluded, failure.why);
  return excludeNow(failure);
}

// Returns false if the run does not continue without the nodes.
bool RunControl::excludeNow(const Error& cause) {
  const auto members = membersExcluding(requests_.excluding());
  if (!members.ok()) {
    requests_.dropExclusions();
    tellDecisions();
    warn(members.error());
    return false;
  }
  for (const std::string& node : std::vector(requests_.excluding())) leaveOut(node);
  if (failedAt_ == 0) failedAt_ = monotonicNow();
  recover(cause, *members);
  return true;
}

void RunControl::cannotExclude(const Message& why) {
  for (const std::string& node : requests_.dropExclusions()) {
    Error warning = makeError(Code::kUnavailable, "node {} cannot be excluded now", node);
    warning.node = node;
    warning.why = why;
    warn(std::move(warning));
  }
  tellDecisions();
}

void RunControl::cannotRebalance(const Message& why) {
  if (!requests_.dropRebalancing() || !coordinates()) return;
  tellDecisions();
  Error warning = makeError(Code::kUnavailable, "the batch of run {} cannot be divided anew now",
                            request_.run());
  warning.why = why;
  warn(std::move(warning));
}

void RunControl::dropRequests(const Message& why) {
  cannotExclude(why);
  cannotRebalance(why);
  if (!requests_.dropRestart()) return;
  Error warning =
      makeError(Code::kUnavailable, "the ranks of run {} cannot be restarted now", request_.run());
  warning.why = why;
  warn(std::move(warning));
}

// All nodes have published a checkpoint, and have copied it where they keep copies.
void RunControl::regroup(std::int64_t step) {
  if (!requests_.any()) return grow();
  if (!coordinates() || leaving_ || !gone_ || outcome_) return;
  const Requests::Due due = requests_.due(step);
  if (!due.any()) return;
  if (stopping_ || isEnding()) return dropRequests("the run is ending");
  Error cause = makeError(Code::kAborted, "a restart of all ranks was requested");
  cause.node = request_.node();
  if (due.exclusion) {
    Error excluded = cause;
    excluded.what = requests_.excludedText(recovery_);
    excluded.node = requests_.excluding().front();
    if (requests_.isFailing(excluded.node)) excluded.why = recovery_.lastFailureOf(excluded.node);
    if (excludeNow(excluded)) return;
  }
  if (due.rebalancing && rebalanceNow(step)) return;
  if (!due.restart) return;
  failedAt_ = monotonicNow();
  recover(cause);
}

// Returns false if the batch cannot be divided so.
bool RunControl::rebalanceNow(std::int64_t step) {
  const auto members = membersSharing(requests_.shares(), request_);
  if (!members.ok()) {
    cannotRebalance(members.error().text());
    return false;
  }
  requests_.dropRebalancing();
  Error cause = makeError(Code::kAborted, "the batch is divided anew, as was requested");
  cause.node = request_.node();
  cause.step = step;
  failedAt_ = monotonicNow();
  recover(cause, *members);
  return true;
}

}  // namespace lockstep::agent
