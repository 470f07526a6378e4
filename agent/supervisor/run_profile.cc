// RunControl: records all events of some steps on request.
#include <algorithm>

#include "agent/supervisor/run_control.h"

namespace lockstep::agent {

Result<node::v1::ProfiledSteps> RunControl::profile(const std::string& run, int generation,
                                                    int steps) {
  constexpr int kMostSteps = 200;
  // By then all ranks know of it; the coordinator knows of a step a moment after its end.
  constexpr Nanoseconds kNotice = 500'000'000;
  LOCKSTEP_TRY(check(run, generation));
  LOCKSTEP_TRY(checkCoordinates());
  if (steps < 1 || steps > kMostSteps)
    return invalidArgument("steps is {}; expected 1 to {}", steps, kMostSteps);
  LOCKSTEP_TRY(mayRegroup(
      makeError(Code::kFailedPrecondition, "no steps of run {} can be recorded now", run)));
  node::v1::ProfiledSteps out;
  const Nanoseconds step = std::max<Nanoseconds>(hangs_.usualStep(), 1'000);
  out.set_first(furthest_ + 2 + kNotice / step);
  out.set_count(steps);
  node::v1::ToPeer message;
  *message.mutable_profile() = out;
  tellPeers(message);
  profileHere(out);
  say(fmt::format("all events of steps {} to {} are recorded, on request", out.first(),
                  out.first() + steps - 1));
  return out;
}

void RunControl::profileHere(const node::v1::ProfiledSteps& steps) {
  node::v1::ToWorker message;
  *message.mutable_profile() = steps;
  sendAll(message);
}

}  // namespace lockstep::agent
