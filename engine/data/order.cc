#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include "engine/base/random.h"
#include "engine/data/dataset.h"

namespace lockstep::data {
namespace {

constexpr int kRounds = 6;

// Returns a uniform number in [0, bound): the high half of a 64 × 32 bit product, whose bias is
// below 2⁻³² for the bounds here (Lemire, "Fast random integer generation in an interval", 2019).
std::uint32_t randomBelow(std::uint64_t key, std::uint64_t index, std::uint64_t bound) {
  const std::uint64_t bits = randomBits(key, index);
  const std::uint64_t low = (bits & 0xffffffffu) * bound;
  return static_cast<std::uint32_t>(((bits >> 32) * bound + (low >> 32)) >> 32);
}

}  // namespace

std::int64_t Dataset::tableSamples() const { return SampleOrder::kTableSamples; }

SampleOrder::SampleOrder(std::int64_t size, std::uint64_t seed, bool shuffle,
                         std::int64_t tableSamples)
    : size_(size), seed_(seed), shuffle_(shuffle) {
  LOCKSTEP_CHECK(size >= 0, "{} samples", size);
  if (shuffle && size <= tableSamples) table_.resize(static_cast<std::size_t>(size));
  halfBits_ = (std::bit_width(static_cast<std::uint64_t>(size)) + 1) / 2;
}

void SampleOrder::begin(std::int64_t epoch) {
  key_ = randomKey(seed_, static_cast<std::uint64_t>(epoch));
  std::iota(table_.begin(), table_.end(), std::uint32_t{0});
  // Fisher–Yates (Knuth, The Art of Computer Programming 2, algorithm P).
  for (std::size_t i = table_.size(); i-- > 1;)
    std::swap(table_[i], table_[randomBelow(key_, i, i + 1)]);
}

std::int64_t SampleOrder::at(std::int64_t position) const {
  if (!shuffle_) return position;
  if (!table_.empty()) return table_[static_cast<std::size_t>(position)];
  // A permutation of the 2·halfBits_-bit numbers (Luby and Rackoff, "How to construct pseudorandom
  // permutations", 1988), iterated until the result is below the size (Black and Rogaway, "Ciphers
  // with arbitrary finite domains", 2002).
  const std::uint64_t mask = (std::uint64_t{1} << halfBits_) - 1;
  auto number = static_cast<std::uint64_t>(position);
  do {
    std::uint64_t left = number >> halfBits_, right = number & mask;
    for (std::uint64_t round = 0; round < kRounds; ++round)
      left = std::exchange(right, left ^ (randomBits(key_ + round, right) & mask));
    number = left << halfBits_ | right;
  } while (number >= static_cast<std::uint64_t>(size_));
  return static_cast<std::int64_t>(number);
}

std::int64_t stepsPerEpoch(std::int64_t size, std::int64_t globalBatch) {
  LOCKSTEP_CHECK(size > 0 && globalBatch > 0, "{} samples in batches of {}", size, globalBatch);
  return (size - 1) / globalBatch + 1;
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
