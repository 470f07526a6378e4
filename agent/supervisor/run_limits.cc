#include "agent/supervisor/run_limits.h"

#include <fmt/format.h>

#include <algorithm>

#include "agent/supervisor/succession.h"
#include "engine/plan/wait_limit.h"

namespace lockstep::agent {
namespace {

constexpr int kLost = 20, kFormation = 2 * kLost,
              kAbsence = 2 * (kLost + kFormation);  // heartbeats

double seconds(Nanoseconds time) { return static_cast<double>(time) * 1e-9; }

}  // namespace

RunLimits RunLimits::withHeartbeat(Nanoseconds heartbeat) const {
  RunLimits out = *this;
  out.formation = std::max(formation, kFormation * heartbeat);
  out.lostPeer = std::max(lostPeer, kLost * heartbeat);
  out.grace = std::max(grace, kSilentHeartbeats * heartbeat);
  out.absence = std::max(absence, kAbsence * heartbeat);
  return out;
}

std::vector<std::string> RunLimits::lines(Nanoseconds heartbeat, bool ofProgram) const {
  const auto atStop = [&] {
    if (ofProgram)
      return fmt::format(
          "at a stop, the program gets SIGTERM at once and after {:.0f} s, and is killed after "
          "{:.0f} s",
          seconds(stopProgram.term), seconds(stopProgram.kill));
    return fmt::format(
        "at a stop, ranks get SIGTERM after {:.0f} s and are killed after {:.0f} s; the last "
        "evaluation is awaited for {:.0f} s, and copies of the last checkpoint for {:.0f} s",
        seconds(stop.term), seconds(stop.kill), seconds(lastEvaluation), seconds(lastCopies));
  };
  return {
      fmt::format("a heartbeat every {:.2f} s: a node is silent after {:.1f} s; one that is not "
                  "replaced is lost after {:.0f} s, and may come back within {:.0f} s",
                  seconds(heartbeat), seconds(kSilentHeartbeats * heartbeat), seconds(lostPeer),
                  seconds(absence)),
      fmt::format("ranks have {:.0f} s to form their groups; a collective waits at least {:.0f} s "
                  "for a rank; an error that may follow from another waits {:.0f} s for that",
                  seconds(formation), seconds(plan::kCollectiveLimit), seconds(grace)),
      fmt::format(
          "if the coordinating node is silent, each node that may take over has {:.1f} s to "
          "answer; a majority has {:.0f} s to confirm a request, and {:.0f} s to confirm the "
          "run's end",
          seconds(Succession::kTurn * heartbeat), seconds(kept), seconds(lostPeer)),
      atStop()};
}

}  // namespace lockstep::agent
