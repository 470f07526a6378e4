#include <algorithm>
#include <numeric>
#include <utility>

#include "engine/base/random.h"
#include "engine/data/dataset.h"

namespace lockstep::data {
namespace {

// Uniform in [0, bound): the high half of a 64 × 32 bit product, whose bias is below 2^-32 for the
// bounds here (Lemire, "Fast random integer generation in an interval", 2019).
std::int64_t randomBelow(std::uint64_t key, std::uint64_t index, std::uint64_t bound) {
  const std::uint64_t bits = randomBits(key, index);
  const std::uint64_t low = (bits & 0xffffffffu) * bound;
  return static_cast<std::int64_t>(((bits >> 32) * bound + (low >> 32)) >> 32);
}

}  // namespace

std::vector<std::int64_t> epochOrder(std::int64_t size, std::uint64_t seed, std::int64_t epoch,
                                     bool shuffle) {
  LOCKSTEP_CHECK(size >= 0 && size < std::int64_t{1} << 32, "{} samples", size);
  std::vector<std::int64_t> order(static_cast<std::size_t>(size));
  std::iota(order.begin(), order.end(), 0);
  if (!shuffle) return order;
  const std::uint64_t key = randomKey(seed, static_cast<std::uint64_t>(epoch));
  // Fisher–Yates (Knuth, The Art of Computer Programming 2, algorithm P).
  for (std::int64_t i = size - 1; i > 0; --i) {
    const auto u = static_cast<std::uint64_t>(i);
    std::swap(order[u], order[static_cast<std::size_t>(randomBelow(key, u, u + 1))]);
  }
  return order;
}

std::int64_t stepsPerEpoch(std::int64_t size, std::int64_t globalBatch) {
  LOCKSTEP_CHECK(size > 0 && globalBatch > 0, "{} samples in batches of {}", size, globalBatch);
  return (size + globalBatch - 1) / globalBatch;
}

BatchPosition batchPosition(std::int64_t size, std::int64_t globalBatch, std::int64_t step) {
  const std::int64_t steps = stepsPerEpoch(size, globalBatch);
  BatchPosition position;
  position.epoch = step / steps;
  position.first = step % steps * globalBatch;
  position.count = std::min(globalBatch, size - position.first);
  return position;
}

}  // namespace lockstep::data
