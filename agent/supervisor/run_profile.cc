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
  Error refusal =
      makeError(Code::kFailedPrecondition, "no steps of run {} can be recorded now", run);
  LOCKSTEP_TRY(mustTrain(refusal));
  const std::int64_t last = workers_.lastStep();  // of this generation, which may be further back
  const bool isUnderWay = last < profiled_.first() + profiled_.count() - 1;
  if (isUnderWay && steps <= profiled_.count()) return profiled_;
  const Nanoseconds step = hangs_.usualStep();
  if (step <= 0) {
    refusal.why = "the run is starting or restarting";
    refusal.next = "ask again when it trains";
    return refusal;
  }
  node::v1::ProfiledSteps added;
  added.set_first(last + 2 + kNotice / step);
  added.set_count(steps);
  // What was asked for before is recorded too. It may come later, if steps take longer now.
  std::int64_t first = added.first(), end = first + steps;
  if (isUnderWay) {
    first = std::min(first, profiled_.first());
    end = std::max(end, profiled_.first() + profiled_.count());
  }
  profiled_.set_first(first);
  profiled_.set_count(static_cast<int>(end - first));
  node::v1::ToPeer message;
  *message.mutable_profile() = profiled_;
  tellPeers(message);
  profileHere(profiled_);
  say(fmt::format("all events of steps {} to {} are recorded, on request", added.first(),
                  added.first() + steps - 1));
  return added;
}

void RunControl::profileHere(const node::v1::ProfiledSteps& steps) {
  node::v1::ToWorker message;
  *message.mutable_profile() = steps;
  workers_.sendAll(message);
}

}  // namespace lockstep::agent
