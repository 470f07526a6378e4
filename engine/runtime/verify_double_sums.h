// The check "fp64 sums": both plans with fp64 in the place of fp32 (double_storage.h).
#pragma once

#include <atomic>
#include <optional>

#include "engine/runtime/verify.h"

namespace lockstep::runtime {

// Compares plans with fp64 sums; null where they are too large for it.
Result<std::optional<Finding>> compareExact(const Reference& one, const PlanPair& several,
                                            const Experiment& experiment,
                                            const std::atomic<bool>& stop);

}  // namespace lockstep::runtime
