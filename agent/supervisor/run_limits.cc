#include "agent/supervisor/run_limits.h"

#include <fmt/format.h>

#include <algorithm>

#include "agent/supervisor/hang_watch.h"
#include "agent/supervisor/succession.h"
#include "agent/worker/stall_watch.h"

namespace lockstep::agent {
namespace {

double seconds(Nanoseconds time) { return static_cast<double>(time) * 1e-9; }

// Of nodes.
void addSilence(const RunLimits& limits, Nanoseconds heartbeat, std::vector<std::string>& lines) {
  lines.push_back(fmt::format(
      "a heartbeat every {:.2f} s: a node is silent after {:.1f} s; one that is not replaced is "
      "lost after {:.0f} s, and may come back within {:.0f} s; a connection on which nothing comes "
      "for {:.0f} s is closed after {:.0f} s more",
      seconds(heartbeat), seconds(specs::kSilentHeartbeats * heartbeat), seconds(limits.lostPeer),
      seconds(limits.absence), seconds(limits.keepalive), seconds(limits.keepalive)));
  lines.push_back(fmt::format(
      "if the coordinating node is silent, each node that may take over has {:.1f} s to answer; a "
      "majority has {:.0f} s to confirm a request, and {:.0f} s to confirm the run's end",
      seconds(Succession::kTurn * heartbeat), seconds(limits.kept), seconds(limits.lostPeer)));
}

// Of ranks that make no progress.
void addProgress(const LimitedRun& run, std::vector<std::string>& lines) {
  if (run.collective > 0)
    lines.push_back(fmt::format(
        "a collective waits {:.0f} s for a rank that makes no progress{}", seconds(run.collective),
        run.onGpus > 0 ? fmt::format(", between GPUs {:.0f} s", seconds(run.onGpus)) : ""));
  if (run.watchesHangs)
    lines.push_back(fmt::format(
        "a rank tells that it stands still after {:.0f} s, and holds the others up after {} times "
        "the usual step, but at least {:.0f} s; after {:.0f} s before steps are known",
        seconds(StallWatch::kStall), specs::kHang.times, seconds(specs::kHang.least),
        seconds(HangWatch::kFirst)));
  if (run.silentProgram > 0)
    lines.push_back(fmt::format("the program hangs once all ranks have been silent for {:.0f} s",
                                seconds(run.silentProgram)));
  if (run.disk > 0)
    lines.push_back(fmt::format("the run ends if nothing moves on a rank's disk for {:.0f} s",
                                seconds(run.disk)));
}

std::string stopText(const RunLimits& limits, const LimitedRun& run) {
  if (run.ofProgram)
    return fmt::format(
        "at a stop, the program gets SIGTERM at once and after {:.0f} s, and is killed after "
        "{:.0f} s",
        seconds(limits.stopProgram.term), seconds(limits.stopProgram.kill));
  std::string out =
      fmt::format("at a stop, ranks get SIGTERM after {:.0f} s and are killed after {:.0f} s",
                  seconds(limits.stop.term), seconds(limits.stop.kill));
  if (run.heartbeat > 0)
    out += fmt::format(
        "; the last evaluation is awaited for {:.0f} s, and copies of the last checkpoint for "
        "{:.0f} s",
        seconds(limits.lastEvaluation), seconds(limits.lastCopies));
  return out;
}

}  // namespace

RunLimits RunLimits::withHeartbeat(Nanoseconds heartbeat) const {
  RunLimits out = *this;
  const auto grow = [heartbeat](Nanoseconds& limit, int heartbeats) {
    limit = std::max(limit, heartbeats * heartbeat);
  };
  grow(out.formation, specs::kFormation.times);
  grow(out.lostPeer, specs::kLostPeer.times);
  grow(out.keepalive, specs::kKeepalive.times);
  grow(out.grace, specs::kGrace.times);
  grow(out.absence, specs::kAbsence.times);
  return out;
}

std::vector<std::string> RunLimits::lines(const LimitedRun& run) const {
  std::vector<std::string> out;
  if (run.heartbeat > 0) addSilence(*this, run.heartbeat, out);
  out.push_back(fmt::format(
      "a run that is not committed is given up after {:.0f} s; ranks have {:.0f} s to form their "
      "groups; a failure that may follow from another waits {:.0f} s for that",
      seconds(prepared), seconds(formation), seconds(grace)));
  addProgress(run, out);
  out.push_back(stopText(*this, run));
  return out;
}

}  // namespace lockstep::agent
