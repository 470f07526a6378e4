// Reference gradient encoding, element by element, by the definition of each coding.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <type_traits>
#include <vector>

#include "engine/backends/compression.h"
#include "engine/backends/reference_kernels.h"

namespace lockstep::backends::reference {

// Rounds x to `fraction` mantissa bits, with an exponent of at least `least` and a magnitude of at
// most `most`.
inline double rounded(double x, int fraction, int least, double most) {
  if (x == 0 || !std::isfinite(x)) return x;
  const double step = std::ldexp(1.0, std::max(std::ilogb(x), least) - fraction);
  return std::clamp(std::nearbyint(x / step) * step, -most, most);
}

// Returns the 16-bit encoding of a number that it represents exactly.
inline std::uint16_t bitsOf16(double x, int fraction, int least) {
  const auto bits = [&](int exponent, std::int64_t rest) {
    const std::int64_t sign = std::signbit(x) ? 0x8000 : 0;
    return static_cast<std::uint16_t>(sign | (std::int64_t{exponent} << fraction) | rest);
  };
  const int infinite = 2 * (1 - least) + 1;
  if (std::isnan(x)) return bits(infinite, std::int64_t{1} << (fraction - 1));
  if (std::isinf(x)) return bits(infinite, 0);
  const int exponent = x == 0 ? least : std::max(std::ilogb(x), least);
  const auto whole = static_cast<std::int64_t>(std::ldexp(std::abs(x), fraction - exponent));
  const std::int64_t one = std::int64_t{1} << fraction;
  return whole < one ? bits(0, whole) : bits(exponent - least + 1, whole - one);
}
inline double valueOf16(std::uint16_t bits, int fraction, int least) {
  const int exponent = (bits & 0x7fff) >> fraction, infinite = 2 * (1 - least) + 1;
  const std::int64_t one = std::int64_t{1} << fraction, rest = bits & (one - 1);
  double x = std::ldexp(static_cast<double>(exponent > 0 ? one + rest : rest),
                        std::max(exponent, 1) - 1 + least - fraction);
  if (exponent == infinite)
    x = rest != 0 ? std::numeric_limits<double>::quiet_NaN()
                  : std::numeric_limits<double>::infinity();
  return (bits & 0x8000) != 0 ? -x : x;
}

struct Format16 {
  int fraction, least;
  double most;
};
inline Format16 format16(ir::Coding coding) {
  if (coding == ir::Coding::kFp16) return {10, -14, 65504};
  return {7, -126, std::ldexp(255.0, 120)};
}

// Rounds as kCast does.
template <typename To>
To narrowed(double x) {
  constexpr bool isHalf = std::is_same_v<To, F16>;
  const auto [fraction, least, most] = format16(isHalf ? ir::Coding::kFp16 : ir::Coding::kBf16);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  double near = rounded(x, fraction, least, isHalf ? kInfinity : most);
  if (std::abs(near) > most) near = std::copysign(kInfinity, near);
  return {bitsOf16(near, fraction, least)};
}

inline void encode16(const CodingShape& s, const float* t, std::byte* payload) {
  const auto [fraction, least, most] = format16(s.coding);
  for (std::int64_t i = 0; i < s.count; ++i) {
    const std::uint16_t bits =
        bitsOf16(rounded(static_cast<double>(t[i]), fraction, least, most), fraction, least);
    std::memcpy(payload + 2 * i, &bits, 2);
  }
}

inline void encodeInt8(const CodingShape& s, const float* t, std::byte* payload) {
  std::memset(payload, 0, static_cast<std::size_t>(s.payload));
  for (std::int64_t first = 0; first < s.count; first += ir::kScaledTogether) {
    const std::int64_t last = std::min(first + ir::kScaledTogether, s.count);
    float largest = 0;
    bool finite = true;
    for (std::int64_t i = first; i < last; ++i) {
      finite = finite && std::isfinite(t[i]);
      largest = std::max(largest, std::abs(t[i]));
    }
    const float scale = finite ? largest / 127.0f : std::numeric_limits<float>::quiet_NaN();
    std::memcpy(payload + s.scaleAt(first), &scale, 4);
    for (std::int64_t i = first; finite && scale > 0 && i < last; ++i) {
      const float q = std::clamp(std::nearbyint(t[i] / scale), -127.0f, 127.0f);
      payload[s.valueAt(i - i % ir::kScaledTogether) + i % ir::kScaledTogether] =
          static_cast<std::byte>(static_cast<int>(q));
    }
  }
}

inline void encodeTopK(const CodingShape& s, const float* t, std::byte* payload,
                       std::vector<std::uint32_t>& order) {
  std::iota(order.begin(), order.end(), 0u);
  const auto magnitude = [&](std::uint32_t i) {
    constexpr double kMost = std::numeric_limits<double>::max();
    if (std::isnan(t[i])) return std::numeric_limits<double>::infinity();
    return std::min(std::abs(static_cast<double>(t[i])), kMost);
  };
  const auto kept = order.begin() + static_cast<std::ptrdiff_t>(s.kept);
  std::partial_sort(order.begin(), kept, order.end(), [&](std::uint32_t a, std::uint32_t b) {
    const double x = magnitude(a), y = magnitude(b);
    return x != y ? x > y : a < b;
  });
  std::sort(order.begin(), kept);
  for (std::int64_t k = 0; k < s.kept; ++k) {
    const std::uint32_t index = order[static_cast<std::size_t>(k)];
    std::memcpy(payload + 4 * k, t + index, 4);
    std::memcpy(payload + 4 * (s.kept + k), &index, 4);
  }
}

// Adds the decoded payload to y.
template <typename T>
void addDecoded(const CodingShape& s, const std::byte* payload, T* y) {
  if (s.coding == ir::Coding::kTopK) {
    for (std::int64_t k = 0; k < s.kept; ++k) {
      float value = 0;
      std::uint32_t index = 0;
      std::memcpy(&value, payload + 4 * k, 4);
      std::memcpy(&index, payload + 4 * (s.kept + k), 4);
      if (index < s.count)
        y[index] += static_cast<T>(value);  // untrusted: received from another rank
    }
    return;
  }
  const auto [fraction, least, most] = format16(s.coding);
  for (std::int64_t i = 0; i < s.count; ++i) {
    if (s.coding == ir::Coding::kInt8) {
      const std::int64_t first = i - i % ir::kScaledTogether;
      float scale = 0;
      std::memcpy(&scale, payload + s.scaleAt(first), 4);
      const auto q = static_cast<std::int8_t>(payload[s.valueAt(first) + i - first]);
      y[i] += static_cast<T>(static_cast<float>(q) * scale);
    } else {
      std::uint16_t bits = 0;
      std::memcpy(&bits, payload + 2 * i, 2);
      y[i] += static_cast<T>(valueOf16(bits, fraction, least));
    }
  }
}

template <typename T>
void encode(const CodingShape& s, const T* x, const T* residual, T* rest, std::byte* payload,
            std::vector<T>& sent, std::vector<float>& t, std::vector<std::uint32_t>& order) {
  for (std::int64_t i = 0; i < s.count; ++i) {
    rest[i] = x[i] + residual[i];
    t[static_cast<std::size_t>(i)] = static_cast<float>(rest[i]);
  }
  switch (s.coding) {
    case ir::Coding::kFp16:
    case ir::Coding::kBf16:
      encode16(s, t.data(), payload);
      break;
    case ir::Coding::kInt8:
      encodeInt8(s, t.data(), payload);
      break;
    case ir::Coding::kTopK:
      encodeTopK(s, t.data(), payload, order);
      break;
  }
  std::fill(sent.begin(), sent.end(), T{0});
  addDecoded(s, payload, sent.data());
  for (std::int64_t i = 0; i < s.count; ++i) rest[i] -= sent[static_cast<std::size_t>(i)];
}

}  // namespace lockstep::backends::reference
