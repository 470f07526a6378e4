// Non-finite numbers: finding them, and the error that ends a run on them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "engine/base/dtype.h"
#include "engine/base/status.h"
#include "engine/plan/plan.h"

namespace lockstep::runtime {

// Returns the index of the first infinite or NaN element; −1 if all are finite, and for integers.
std::int64_t firstNonFinite(std::span<const std::byte> data, DType dtype);

// Returns the display name of a member of a state slot: "parameter dense1.weight", "running
// statistic norm.mean", "optimizer state adam.m of dense1.weight".
std::string stateTensorText(const plan::StateSlot& slot, std::string_view member);

// Returns the error that ends a run after `step`: `found` is what is not finite, `where` its first
// tensor, if known. Identical on all ranks.
Error diverged(const Message& found, const std::string& where, std::int64_t step);

}  // namespace lockstep::runtime
