// The two 16-bit floating-point formats, value by value: IEEE 754's binary16 and bfloat16, which is
// the upper half of binary32.
#pragma once

#include <bit>
#include <cstdint>

namespace lockstep {

// A sign, an exponent and kFraction bits of mantissa.
template <int kFraction>
struct Float16 {
  std::uint16_t bits = 0;

  explicit operator double() const {
    const std::uint64_t magnitude = bits & 0x7fffu, exponent = magnitude >> kFraction;
    const std::uint64_t fraction = magnitude & ((1u << kFraction) - 1), sign = bits & 0x8000u;
    if (exponent == 0) {
      constexpr double kStep =
          std::bit_cast<double>((kWide / 2 - kExponents / 2 + 1 - kFraction) << 52);
      return (sign != 0 ? -1.0 : 1.0) * static_cast<double>(fraction) * kStep;
    }
    const std::uint64_t wide =
        exponent == kExponents ? kWide : exponent - kExponents / 2 + kWide / 2;
    return std::bit_cast<double>(sign << 48 | wide << 52 | fraction << (52 - kFraction));
  }

  // Rounds to nearest, ties to even; what is too large becomes infinite, a NaN stays one.
  static Float16 of(double x) {
    const auto all = std::bit_cast<std::uint64_t>(x);
    const auto sign = static_cast<std::uint16_t>(all >> 48 & 0x8000u);
    const std::uint64_t magnitude = all & ~(1ull << 63), wide = magnitude >> 52;
    if (x != x) return with(sign, kExponents << kFraction | 1u << (kFraction - 1));
    const auto exponent =
        static_cast<std::int64_t>(wide + kExponents / 2) - static_cast<std::int64_t>(kWide / 2);
    if (exponent >= static_cast<std::int64_t>(kExponents))
      return with(sign, kExponents << kFraction);
    const std::uint64_t fraction = magnitude & ((1ull << 52) - 1);
    std::int64_t shift = 52 - kFraction;
    std::uint64_t kept = static_cast<std::uint64_t>(exponent) << 52 | fraction;
    if (exponent <= 0) {  // a subnormal number
      shift += 1 - exponent;
      kept = 1ull << 52 | fraction;
      if (shift > 53) return with(sign, 0);
    }
    const std::uint64_t half = 1ull << (shift - 1), even = kept >> shift & 1;
    return with(sign, (kept + half - 1 + even) >> shift);
  }

 private:
  static constexpr std::uint64_t kExponents = (1u << (15 - kFraction)) - 1, kWide = 0x7ff;
  static Float16 with(std::uint16_t sign, std::uint64_t magnitude) {
    return {static_cast<std::uint16_t>(sign | magnitude)};
  }
};
using Bf16 = Float16<7>;
using F16 = Float16<10>;

}  // namespace lockstep
