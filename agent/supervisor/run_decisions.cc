// RunControl: what the coordinator has decided and is still to be done: what a person has asked
// for, whose votes count (electorates.h), and how the run ends. The other nodes keep it, so that
// whoever takes over does it.
//
// Each revision has all of it. Once so many nodes have confirmed one that every majority has one of
// them, a node that takes over knows it, or a newer one, by its voters. A request is answered only
// then, and the run ends only then: so nobody trains again what has ended elsewhere. A run that is
// killed ends at once wherever that is known. Nodes that have ended do not vote, so that none takes
// over where a majority knows.
#include <algorithm>
#include <iterator>

#include "agent/base/grpc_status.h"
#include "agent/supervisor/members.h"
#include "agent/supervisor/run_control.h"
#include "engine/base/log.h"

namespace lockstep::agent {
namespace {

using node::v1::FromPeer;
using node::v1::ToPeer;

// Revisions of a later generation are newer, whatever a lost coordinator has told.
constexpr int kGenerationBits = 32;  // of a revision below its generation
std::int64_t firstRevision(int generation) { return std::int64_t{generation} << kGenerationBits; }
std::int64_t lastRevision(int generation) {
  return firstRevision(generation) + ((std::int64_t{1} << kGenerationBits) - 1);
}

}  // namespace

// ---- at the coordinator

node::v1::Decisions RunControl::decisions() const {
  node::v1::Decisions out = requests_.pending();
  out.set_revision(revision_);
  if (decidedEnd_) out.set_end(*decidedEnd_);
  out.set_stops(stopping_);
  out.set_killed(killed_);
  for (const Electorate& one : electorates_)
    out.add_electorates()->mutable_nodes()->Assign(one.begin(), one.end());
  return out;
}

void RunControl::tellDecisions() {
  revision_ = std::max(revision_ + 1, firstRevision(generation_));
  ToPeer message;
  *message.mutable_decisions() = decisions();
  tellPeers(message);
}

// Whether whoever takes over knows this revision, if a node can take over.
bool RunControl::isKept(std::int64_t revision) const {
  if (!coordinates() || !continuesWithoutAny()) return true;
  return isQuorum(electorates_, [&](const std::string& name) {
    const auto peer = peers_.find(name);
    return name == request_.node() || (peer != peers_.end() && peer->second.kept >= revision);
  });
}

// The run trains. Before it first did, no node could have taken over.
void RunControl::changeElectorate() {
  Electorate next = nodesThatVote();
  if (!electorates_.empty() && electorates_.back() == next) return;
  electorates_.push_back(std::move(next));
  tellDecisions();
  electoratesTold_ = revision_;
  endElectorateChange();
}

void RunControl::endElectorateChange() {
  if (!coordinates() || electorates_.size() < 2 || !isKept(electoratesTold_)) return;
  electorates_ = {electorates_.back()};
  tellDecisions();
}

void RunControl::whenKept(Nanoseconds limit, std::function<void(const Status&)> answer) {
  unanswered_.push_back({revision_, monotonicNow() + limit, std::move(answer)});
  answerKept();
  if (!unanswered_.empty()) loop_.after(limit, [this] { answerKept(); });
}

void RunControl::answerKept() {
  endElectorateChange();
  const Nanoseconds now = monotonicNow();
  const auto waits = [&](const Unanswered& one) {
    return !over_ && !isKept(one.revision) && now < one.until;
  };
  const auto due = std::stable_partition(unanswered_.begin(), unanswered_.end(), waits);
  const std::vector<Unanswered> answered(std::make_move_iterator(due),
                                         std::make_move_iterator(unanswered_.end()));
  unanswered_.erase(due, unanswered_.end());
  for (const Unanswered& one : answered)
    one.answer(isKept(one.revision) ? Status() : Status(notKept()));
}

Error RunControl::notKept() const {
  Error error =
      makeError(Code::kUnavailable, "it is not known whether the run does what was asked");
  error.why = alone_ ? message(
                           "fewer than half of its nodes have confirmed it within {} s: the "
                           "others may go on without node {}",
                           limits_.kept / 1'000'000'000, request_.node())
              : outcome_ ? message("the run has ended meanwhile")
                         : message(
                               "fewer than half of its nodes have confirmed it within {} s; if "
                               "node {} is lost now, so may be the request",
                               limits_.kept / 1'000'000'000, request_.node());
  error.next = "see what the run says, or ask again";
  error.node = request_.node();
  return error;
}

void RunControl::decideEnd(run::v1::RunState state) {
  if (decidedEnd_ == state) return;
  decidedEnd_ = state;
  if (state == run::v1::SUCCEEDED && !continuesWithoutAny()) writeEnd();  // it cannot change
  tellDecisions();
}

// So that the run has ended so on this node, even if its supervisor is killed now.
void RunControl::writeEnd() {
  if (Status status = folder_.writeState(*decidedEnd_); !status.ok())
    logWarning("{}", status.error().text());
}

// A run whose other nodes do not answer any more ends too, since its training is done.
void RunControl::endOnceKept() {
  if (endsAtOnce_) return endAsDecided();
  const auto isOver = [this, generation = generation_] {
    return outcome_ || generation != generation_;
  };
  whenKept(limits_.lostPeer, [this, isOver](const Status& kept) {
    if (isOver()) return;
    if (!kept.ok()) say("ends, although fewer than half of the run's nodes have confirmed it");
    endAsDecided();
    agreed_ = kept.ok();  // another node may have taken over, and go on
  });
  if (isOver()) return;
  loop_.after(limits_.kept, [this, isOver] {
    if (isOver()) return;
    tellAwaited(
        message("waits until half of the nodes have confirmed the run's end, for {} s at most",
                limits_.lostPeer / 1'000'000'000));
  });
}

void RunControl::endAsDecided() {
  if (workers_.gone()) writeEnd();
  for (const auto& [name, peer] : peers_) tellEnd(name, *decidedEnd_);
  endAs(*decidedEnd_);
}

// ---- at the other nodes

void RunControl::keepDecisions(const node::v1::Decisions& told) {
  continueFrom(told);
  FromPeer message;
  message.mutable_decisions_kept()->set_revision(revision_);
  if (client_) client_->send(std::move(message));
  if (told.killed()) endKilled();
}

// Whoever asks this node whether it takes over is told so.
void RunControl::endKilled() {
  if (outcome_) return;
  killed_ = true;
  const auto knows = [this](const std::string& name) {
    return name == request_.node() || name == coordinator_;
  };
  agreed_ = !continuesWithoutAny() || isQuorum(electorates_, knows);
  abort(killedError({}));
}

void RunControl::continueFrom(const node::v1::Decisions& told) {
  // Any number may come from a peer: those of the next generation are newer nevertheless.
  revision_ = std::clamp<std::int64_t>(told.revision(), 0, lastRevision(generation_));
  electorates_ = electoratesOf(told);
  requests_.continueFrom(told);
  if (told.stops())
    beginStop();
  else
    stopping_ = false;  // a later generation knows of no stop
  decidedEnd_.reset();
  if (told.end() == run::v1::SUCCEEDED || told.end() == run::v1::STOPPED) decidedEnd_ = told.end();
}

// What the voters and this node know.
node::v1::Decisions RunControl::newestOf(const Succession::Voters& voters) const {
  node::v1::Decisions out = decisions();
  for (const auto& [name, voter] : voters) {
    const auto vote = votes_.find(name);
    if (vote != votes_.end() && vote->second.decisions().revision() > out.revision())
      out = vote->second.decisions();
  }
  return out;
}

// At a node that takes over.
void RunControl::continueFrom(const Succession::Voters& voters) {
  const node::v1::Decisions newest = newestOf(voters);
  if (newest.revision() > revision_) continueFrom(newest);
  for (const auto& [name, voter] : voters)
    for (const std::string& one : votes_[name].excluded())
      if (hasRanks(one) && !requests_.isExcluded(one)) requests_.exclude(one, 0);
}

// Those for nodes that this one cannot do without, as itself, are dropped.
void RunControl::takeOverRequests() {
  for (const std::string& node : std::vector(requests_.excluding())) {
    if (const Status excludable = checkExcludable(node); !excludable.ok()) {
      requests_.dropExclusion(node);
      warn(excludable.error());
    } else if (!requests_.isFailing(node)) {
      say(fmt::format("node {} is still to be excluded, as was requested", node));
    }
  }
}

// ---- at every node

// As all nodes of the run do. Ranks that have not ended are stopped; those that have not begun have
// nothing to save.
void RunControl::endAs(run::v1::RunState state) {
  if (outcome_ || !isFinal(state)) return;
  if (!leaving_ && !workers_.gone()) gone_ ? beginStop() : endWorkers();
  outcome_ = state;
  agreed_ = true;
  finishWhenGone();
}

void RunControl::tellEnd(const std::string& node, run::v1::RunState state) {
  ToPeer message;
  if (aborted_)
    *message.mutable_abort()->mutable_error() = toInfo(abortedWith_);
  else
    message.mutable_all_done()->set_state(state);
  if (server_) server_->send(node, message);
}

}  // namespace lockstep::agent
