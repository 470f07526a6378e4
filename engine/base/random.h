// Logical randomness: every random number is a function of what it is for, never of who draws it
// or when. A stream is a 64-bit key; element i of a stream is drawn in O(1).
#pragma once

#include <cmath>
#include <cstdint>

#include "engine/base/normal.h"

namespace lockstep {

constexpr std::uint64_t mix64(std::uint64_t x) { return random::mix(x); }
constexpr std::uint64_t randomKey(std::uint64_t a, std::uint64_t b) { return mix64(mix64(a) ^ b); }
constexpr std::uint64_t randomBits(std::uint64_t key, std::uint64_t index) {
  return random::word(key, index);
}
// Uniform in [0, 1), 53 bits.
constexpr double randomUniform(std::uint64_t key, std::uint64_t index) {
  return static_cast<double>(randomBits(key, index) >> 11) * 0x1.0p-53;
}
// Standard normal by Box–Muller, the same bits on every processor.
inline double randomNormal(std::uint64_t key, std::uint64_t index) {
  return random::normal<double, std::uint64_t>(randomBits(key, 2 * index),
                                               randomBits(key, 2 * index + 1),
                                               [](double x) { return std::sqrt(x); });
}

}  // namespace lockstep
