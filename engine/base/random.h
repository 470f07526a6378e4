// Counter-based random numbers: each is a pure function of its key and index, independent of which
// rank or thread draws it and when. A stream is a 64-bit key; any element is drawn in O(1).
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
// Returns a uniform number in [0, 1) of 53 bits.
constexpr double randomUniform(std::uint64_t key, std::uint64_t index) {
  return static_cast<double>(randomBits(key, index) >> 11) * 0x1.0p-53;
}
// Returns a standard normal by Box–Muller; bit-identical on every processor.
inline double randomNormal(std::uint64_t key, std::uint64_t index) {
  return random::normal<double, std::uint64_t>(randomBits(key, 2 * index),
                                               randomBits(key, 2 * index + 1),
                                               [](double x) { return std::sqrt(x); });
}

}  // namespace lockstep
