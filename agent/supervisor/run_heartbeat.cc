// RunControl: heartbeats between nodes. Each node pings the coordinator, which answers.
#include <algorithm>

#include "agent/supervisor/run_control.h"
#include "agent/worker/prepare.h"
#include "agent/worker/worker_process.h"
#include "engine/plan/plan.h"
#include "engine/plan/wait_limit.h"
#include "engine/specs/specs.h"
#include "engine/specs/workload.h"

namespace lockstep::agent {

// What came while this process was held up, as by a paused machine, waits to be read: that is no
// silence of other nodes.
void RunControl::excuseOwnDelay() {
  const Nanoseconds now = monotonicNow();
  const Nanoseconds delay = lastBeat_ == 0 ? 0 : now - lastBeat_ - heartbeat_;
  lastBeat_ = now;
  if (delay < heartbeat_) return;
  const auto excuse = [&](Heard& heard) {
    if (heard.last != 0) heard.last = std::min(heard.last + delay, now);
  };
  for (auto& [name, peer] : peers_) excuse(peer.heard);
  excuse(coordinatorHeard_);
}

bool RunControl::changed(const std::string& node, Heard& heard) {
  const Nanoseconds since = monotonicNow() - heard.last;
  const bool silent = heard.last != 0 && since > specs::kSilentHeartbeats * heartbeat_;
  if (silent == heard.silent) return false;
  heard.silent = silent;
  say(silent ? fmt::format("nothing has come from node {} for {:.1f} s", node,
                           static_cast<double>(since) * 1e-9)
             : fmt::format("node {} answers again", node));
  return true;
}

bool RunControl::isLate(const Peer& peer) const {
  if (peer.heard.last == 0 || peer.heard.silent) return false;
  const Nanoseconds now = monotonicNow();
  const bool hasLeft = !peer.joined && now - peer.left <= specs::kSilentHeartbeats * heartbeat_;
  return hasLeft || now - peer.heard.last > specs::kLateHeartbeats * heartbeat_;
}

bool RunControl::anyLate() const {
  return std::any_of(peers_.begin(), peers_.end(),
                     [&](const auto& one) { return isLate(one.second); });
}

void RunControl::beat() {
  if (over_ || outcome_) return;
  excuseOwnDelay();
  std::vector<std::string> silent, lost, lostAfterEnd;
  for (auto& [name, peer] : peers_) {
    const bool fresh = changed(name, peer.heard);
    if (!peer.heard.silent) continue;
    if (!peer.done.empty()) {
      if (!peer.joined) lostAfterEnd.push_back(name);
      continue;
    }
    if (fresh) silent.push_back(name);
    if (hasRanks(name)) lost.push_back(name);
  }
  // Nodes that fall silent together are replaced together.
  if (!lost.empty() && !anyLate() && replaceLost(lost)) return;
  for (const std::string& name : silent) warnOfSilence(name);
  for (const std::string& name : lostAfterEnd) giveUpCopiesOf(name);
  if (coordinates()) {
    hangs_.judge(monotonicNow());
  } else {
    (void)changed(coordinator_, coordinatorHeard_);
    succession_.beat(monotonicNow());
  }
  if (!client_) return;
  node::v1::FromPeer ping;
  ping.mutable_ping()->set_sent_ns(monotonicNow());
  client_->send(std::move(ping));
}

// The limits of collectives are those of the plan.
LimitedRun RunControl::limitedRun() const {
  const spec::v1::RunSpec& spec = request_.spec();
  LimitedRun out;
  if (!peers_.empty()) out.heartbeat = heartbeat_;
  out.ofProgram = ofProgram();
  if (ofProgram()) {
    out.silentProgram = 1'000'000'000 * Nanoseconds{specs::hangSecondsOf(spec.workload())};
    return out;
  }
  out.disk = diskLimit().count();
  const auto plan = readPlan(folder_.plan());
  if (!plan.ok() || plan->mesh.size() < 2) return out;  // the workers tell why
  out.collective = plan::collectiveLimit(*plan);
  out.watchesHangs = !plan->isAsynchronous();
  if (out.watchesHangs && specs::allOnGpus(request_.cluster(), spec))
    out.onGpus = plan::deviceLimit(*plan);
  return out;
}

void RunControl::tellLimits() {
  RunLimits limits = limits_;
  limits.formation = formationLimit();
  for (std::string& line : limits.lines(limitedRun())) say(std::move(line));
}

void RunControl::warnOfSilence(const std::string& node) {
  Error warning = makeError(Code::kUnavailable, "node {} does not answer", node);
  warning.why = "heartbeats have stopped";
  if (hasRanks(node))
    warning.next =
        message("check the node and its network; the run ends if the node stays silent for {} s",
                limits_.lostPeer / 1'000'000'000);
  else if (isEvaluator(node))
    warning.next = "check the node and its network; the run continues without its evaluations";
  else
    warning.next =
        "check the node and its network; the run is not affected, because this spare is not in use";
  warning.node = node;
  warn(std::move(warning));
}

}  // namespace lockstep::agent
