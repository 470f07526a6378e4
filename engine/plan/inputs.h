// What the inputs of programs are, by name (see runtime/trainer.h).
#pragma once

#include <cstdint>
#include <string_view>

#include "engine/plan/plan.h"

namespace lockstep::plan {

// Whether it is known before the play's turn, as the batch's samples are; else of the update: its
// learning rate and number, and whether to stop.
inline bool isOfSamples(const Buffer& input) {
  return input.name != "lr" && input.name != "t" && input.name != "stop";
}

// On a device samples wait for their turn in memory of their own: so many bytes, of all programs
// that the rank plays.
std::int64_t waitingSampleBytes(const Plan& plan, int rank);

}  // namespace lockstep::plan
