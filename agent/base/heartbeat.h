// The period at which a node reports on a run. Workers report steps and the supervisor samples the
// node's load at the same instant, and the records are sent shortly after: waking up costs more
// than the work done.
#pragma once

#include "engine/base/clock.h"

namespace lockstep::agent {

constexpr Nanoseconds kHeartbeat = 125'000'000;
constexpr Nanoseconds kHeartbeatGrace = 25'000'000;  // workers have reported by then

// Returns the first multiple of `interval` on the monotonic clock after `now`.
constexpr Nanoseconds nextMultiple(Nanoseconds now, Nanoseconds interval) {
  return (now / interval + 1) * interval;
}

}  // namespace lockstep::agent
