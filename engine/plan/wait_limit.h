// How long a rank waits for a peer that makes no progress, after which that peer counts as frozen.
// Equal on all ranks, and longer than their slowest step.
#pragma once

#include "engine/base/clock.h"
#include "engine/plan/plan.h"

namespace lockstep::plan {

// Times the predicted time of the slowest rank's training step or other program, if that is more
// than the least limit. A pipeline stage may wait for all others, so its step counts once for each
// stage.
inline constexpr double kTimesPredicted = 20;
inline constexpr Nanoseconds kCollectiveLimit = 30'000'000'000;  // the least one
Nanoseconds collectiveLimit(const Plan& plan);
// Of collectives of GPUs, which do not tell computing from waiting.
inline constexpr Nanoseconds kDeviceLimit = 120'000'000'000;  // the least one
Nanoseconds deviceLimit(const Plan& plan);

}  // namespace lockstep::plan
