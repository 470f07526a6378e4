// Random words and standard normals that are bit-identical on every processor: integer arithmetic,
// and in double only +, −, ×, ÷ and √, nothing from a math library. Element-wise: U is
// std::uint64_t and D is double, or vectors of as many of them; `root` computes the square root of
// a D. Compile with -ffp-contract=off wherever the compiler could fuse products and sums.
#pragma once

#include <cstdint>

namespace lockstep::random {

// The SplitMix64 finalizer (Steele, Lea, Flood: "Fast splittable pseudorandom number generators",
// OOPSLA 2014).
template <typename U>
[[gnu::always_inline]] constexpr U mix(U x) {
  x += std::uint64_t{0x9e3779b97f4a7c15u};
  x = (x ^ (x >> 30)) * std::uint64_t{0xbf58476d1ce4e5b9u};
  x = (x ^ (x >> 27)) * std::uint64_t{0x94d049bb133111ebu};
  return x ^ (x >> 31);
}
// Returns element `index` of stream `key`.
template <typename U>
[[gnu::always_inline]] constexpr U word(U key, U index) {
  return mix<U>(key ^ mix<U>(index));
}

// Returns a uniform number in [0, 1) from the upper 53 bits: the two halves become doubles whose
// lowest bits are 1 and 2³².
template <typename D, typename U>
[[gnu::always_inline]] constexpr D uniform(U word) {
  const U bits = word >> 11;
  // 2⁵² + …
  const D low = __builtin_bit_cast(
      D, (bits & std::uint64_t{0xffffffffu}) | std::uint64_t{0x4330000000000000u});
  // 2⁸⁴ + …
  const D high = __builtin_bit_cast(D, (bits >> 32) | std::uint64_t{0x4530000000000000u});
  return ((high - 0x1.00000001p84) + low) * 0x1.0p-53;
}

// Adding this constant rounds to an integer, held in the lowest bits.
inline constexpr double kRound = 0x1.8p52;
inline constexpr std::uint64_t kRoundBits = 0x4338000000000000u;

// Returns log x for 2⁻⁵³ ≤ x ≤ 1, within 2 units in the last place: x = 2ᵉ·m with m from √½ to √2,
// log m = 2·artanh s, s = (m − 1)/(m + 1), by its series; log 2 is split in two parts so that e
// times the first is exact (Cody and Waite).
template <typename D, typename U>
[[gnu::always_inline]] constexpr D logarithm(D x) {
  constexpr std::uint64_t kOne = 0x3ff0000000000000u, kRootOfHalf = 0x3fe6a09e667f3bcdu;
  const U bits = __builtin_bit_cast(U, x) + (kOne - kRootOfHalf);
  const D e = __builtin_bit_cast(D, (bits >> 52) + (kRoundBits - 1023)) - kRound;
  const D m = __builtin_bit_cast(D, (bits & std::uint64_t{0x000fffffffffffffu}) + kRootOfHalf);
  const D s = (m - 1.0) / (m + 1.0), z = s * s, zz = z * z;
  // Even and odd terms are summed separately to shorten the dependency chain.
  const D even = 2.0 / 3 + zz * (2.0 / 7 + zz * (2.0 / 11 + zz * (2.0 / 15 + zz * (2.0 / 19))));
  const D odd = 2.0 / 5 + zz * (2.0 / 9 + zz * (2.0 / 13 + zz * (2.0 / 17 + zz * (2.0 / 21))));
  return e * 0x1.62e42feep-1 + (2.0 * s + (s * (z * (even + z * odd)) + e * 0x1.a39ef35793c76p-33));
}

// Returns cos 2πv for 0 ≤ v < 1, within 2 units in the last place: subtracts the nearest quarter
// turn, which is exact, and evaluates the series of sine and cosine on the rest (at most an
// eighth).
template <typename D, typename U>
[[gnu::always_inline]] constexpr D cosineOfTurns(D v) {
  const D rounded = v * 4.0 + kRound;
  const U quarters = __builtin_bit_cast(U, rounded);
  const D y = (v - (rounded - kRound) * 0.25) * 0x1.921fb54442d18p2, z = y * y, zz = z * z;
  const D sineEven =
      -1.0 / 6 + zz * (-1.0 / 5040 + zz * (-1.0 / 39916800 + zz * (-1.0 / 1307674368000)));
  const D sineOdd =
      1.0 / 120 + zz * (1.0 / 362880 + zz * (1.0 / 6227020800 + zz * (1.0 / 355687428096000)));
  const D cosineEven =
      -1.0 / 2 + zz * (-1.0 / 720 + zz * (-1.0 / 3628800 + zz * (-1.0 / 87178291200)));
  const D cosineOdd =
      1.0 / 24 + zz * (1.0 / 40320 + zz * (1.0 / 479001600 + zz * (1.0 / 20922789888000)));
  const D sine = y + y * (z * (sineEven + z * sineOdd));
  const D cosine = 1.0 + z * (cosineEven + z * cosineOdd);
  const U odd = U{} - (quarters & std::uint64_t{1});  // all bits, or none
  const U bits = (__builtin_bit_cast(U, sine) & odd) | (__builtin_bit_cast(U, cosine) & ~odd);
  return __builtin_bit_cast(D, bits ^ (((quarters + std::uint64_t{1}) & std::uint64_t{2}) << 62));
}

// Returns a standard normal from two random words by Box–Muller.
template <typename D, typename U, typename Root>
[[gnu::always_inline]] constexpr D normal(U first, U second, Root root) {
  return root(logarithm<D, U>(1.0 - uniform<D, U>(first)) * -2.0) *
         cosineOfTurns<D, U>(uniform<D, U>(second));
}

}  // namespace lockstep::random
