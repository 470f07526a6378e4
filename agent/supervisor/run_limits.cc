#include "agent/supervisor/run_limits.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/plan/wait_limit.h"

namespace lockstep::agent {
namespace {

constexpr int kLost = 20;  // heartbeats

double seconds(Nanoseconds time) { return static_cast<double>(time) * 1e-9; }

}  // namespace

RunLimits RunLimits::withHeartbeat(Nanoseconds heartbeat) const {
  RunLimits out = *this;
  out.formation = std::max(formation, 2 * kLost * heartbeat);
  out.lostPeer = std::max(lostPeer, kLost * heartbeat);
  out.grace = std::max(grace, kSilentHeartbeats * heartbeat);
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
      atStop()};
}

}  // namespace lockstep::agent
