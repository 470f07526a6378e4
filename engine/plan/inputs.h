// Classifies program inputs by name (see runtime/trainer.h).
#pragma once

#include <cstdint>
#include <string_view>

#include "engine/plan/plan.h"

namespace lockstep::plan {

// Returns whether the input holds samples of the batch, which are known ahead; the others belong to
// the update: learning rate, step number, stop request.
inline bool isOfSamples(const Buffer& input) {
  return input.name != "lr" && input.name != "t" && input.name != "stop";
}

// Returns the bytes of a device's staging buffers for prefetched samples, over all programs of the
// rank.
std::int64_t waitingSampleBytes(const Plan& plan, int rank);

}  // namespace lockstep::plan
