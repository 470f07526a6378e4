// Numbers that are none: where they are, and how a run that has them ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "engine/base/dtype.h"
#include "engine/base/status.h"

namespace lockstep::runtime {

// Returns the first element that is infinite or not a number; -1 where all are finite, and of
// integers.
std::int64_t firstNonFinite(std::span<const std::byte> data, DType dtype);

// Returns what a person calls a member of a state slot: "parameter dense1.weight", "running
// statistic norm.mean", "optimizer state adam.m of dense1.weight". `slot` is the slot's name, with
// its number or without.
std::string stateTensorText(std::string_view slot, std::string_view member);

// Returns the error that ends a run after `step`, with `found` as what is not finite and `where` as
// its first tensor, where that is known. The same on all ranks: it names none as its own.
Error diverged(const std::string& found, const std::string& where, std::int64_t step);

}  // namespace lockstep::runtime
