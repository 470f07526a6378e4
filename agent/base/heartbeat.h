// Waking costs more than what there is to do on it. So what a node tells of a run it tells on one
// beat: workers of their steps, the supervisor of the node's load, and a moment later all of it
// goes to who reads it.
#pragma once

#include "engine/base/clock.h"

namespace lockstep::agent {

constexpr Nanoseconds kHeartbeat = 125'000'000;
constexpr Nanoseconds kHeartbeatGrace = 25'000'000;  // by then workers have told

// The first multiple of `interval` on the monotonic clock that is later than `now`.
constexpr Nanoseconds nextMultiple(Nanoseconds now, Nanoseconds interval) {
  return (now / interval + 1) * interval;
}

}  // namespace lockstep::agent
