// Findings of non-finite numbers, and their exchange between ranks.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <tuple>

#include "engine/runtime/executor.h"
#include "engine/runtime/groups.h"

namespace lockstep::runtime {

// A non-finite finding: the step, and the first tensor.
struct Found {
  std::int64_t step = 0;
  NonFiniteTensor tensor;
};

constexpr std::int64_t kNotFound = std::numeric_limits<std::int64_t>::max();

// Wire format of a rank's finding.
struct FoundMessage {
  std::int64_t step = kNotFound;
  std::int64_t order = kNotFound;
  std::int64_t rank = -1;
  std::array<char, 232> text{};
  bool operator<(const FoundMessage& other) const {
    return std::tie(step, order, rank) < std::tie(other.step, other.order, other.rank);
  }
};
constexpr std::int64_t kFoundWords = sizeof(FoundMessage) / sizeof(std::int64_t);
static_assert(sizeof(FoundMessage) % sizeof(std::int64_t) == 0);

FoundMessage messageOf(int rank, const std::optional<Found>& found);

// Collective: returns the first finding of all ranks.
Result<FoundMessage> firstFound(const FoundMessage& mine, const Groups& groups);

// Returns the first non-finite tensor of the state on a rank, in plan order.
std::optional<Found> stateNotFinite(const plan::Plan& plan, int rank, StateArena& state,
                                    std::int64_t step);

}  // namespace lockstep::runtime
