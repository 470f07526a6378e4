// Logical randomness: every random number is a function of what it is for, never of who draws it
// or when. A stream is a 64-bit key; element i of a stream is drawn in O(1).
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

namespace lockstep {

// The finaliser of SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number
// generators", OOPSLA 2014).
constexpr std::uint64_t mix64(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}
constexpr std::uint64_t randomKey(std::uint64_t a, std::uint64_t b) { return mix64(mix64(a) ^ b); }
constexpr std::uint64_t randomBits(std::uint64_t key, std::uint64_t index) {
  return mix64(key ^ mix64(index));
}
// Uniform in [0, 1), 53 bits.
constexpr double randomUniform(std::uint64_t key, std::uint64_t index) {
  return static_cast<double>(randomBits(key, index) >> 11) * 0x1.0p-53;
}
// Standard normal by Box–Muller.
inline double randomNormal(std::uint64_t key, std::uint64_t index) {
  const double u = 1.0 - randomUniform(key, 2 * index);
  const double v = randomUniform(key, 2 * index + 1);
  return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * v);
}

}  // namespace lockstep
