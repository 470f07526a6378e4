// Bodies of the encoding kernels: branch-free loops that the compiler vectorizes. Part of
// kernels_body.h. Decoded values are stored before they are added or subtracted, so that no
// instruction set fuses them into a sum and all results are bit-identical.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "engine/backends/cpu/kernels.h"
#include "engine/backends/cpu/vectors.h"

namespace lockstep::backends::cpu {
namespace {

// `auto` would lose their alignment.
typedef std::uint16_t Coded16 __attribute__((aligned(1), may_alias));
typedef float CodedF32 __attribute__((aligned(1), may_alias));

// The first `n` lanes as 16 bits each.
typedef std::uint16_t Halves __attribute__((vector_size(kWidth * 2), aligned(1), may_alias));
inline Mask load16(const Coded16* p, std::int64_t n) {
  Halves v{};
  if (n == kWidth)
    v = *reinterpret_cast<const Halves*>(p);
  else
    __builtin_memcpy(&v, p, static_cast<std::size_t>(n) * sizeof(std::uint16_t));
  return __builtin_convertvector(v, Mask);
}
inline void store16(Coded16* p, Mask wide, std::int64_t n) {
  const Halves v = __builtin_convertvector(wide, Halves);
  if (n == kWidth)
    *reinterpret_cast<Halves*>(p) = v;
  else
    __builtin_memcpy(p, &v, static_cast<std::size_t>(n) * sizeof(std::uint16_t));
}

constexpr std::uint32_t kInfinity = 0x7f800000u;

inline std::uint32_t bitsOf(float x) { return __builtin_bit_cast(std::uint32_t, x); }
inline float floatOf(std::uint32_t bits) { return __builtin_bit_cast(float, bits); }
inline std::uint32_t least(std::uint32_t a, std::uint32_t b) { return a < b ? a : b; }

void encodeFp16(std::int64_t n, const float* x, std::byte*, std::byte* values) {
  Coded16* to = reinterpret_cast<Coded16*>(values);
  for (std::int64_t i = 0; i < n; ++i) {
    const std::uint32_t f = bitsOf(x[i]), all = f & 0x7fffffffu;
    const std::uint32_t a = least(all, 0x477fe000u);  // 65504
    const std::uint32_t normal = (a + 0xfffu + ((a >> 13) & 1u) - 0x38000000u) >> 13;
    // Below 2⁻¹⁴: added to ½, a float has steps of 2⁻²⁴ like a subnormal fp16.
    const std::uint32_t small = bitsOf(floatOf(a) + 0.5f) - 0x3f000000u;
    const std::uint32_t finite = a < 0x38800000u ? small : normal;
    const std::uint32_t rest = all > kInfinity ? 0x7e00u : 0x7c00u;
    to[i] = static_cast<std::uint16_t>(((f >> 16) & 0x8000u) | (all >= kInfinity ? rest : finite));
  }
}

void decodeFp16(std::int64_t n, const std::byte*, const std::byte* values, float* y) {
  const Coded16* from = reinterpret_cast<const Coded16*>(values);
  std::int64_t first = 0;
#if defined(__AVX512F__)
  for (; first + 16 <= n; first += 16)
    _mm512_storeu_ps(
        y + first, _mm512_maskz_cvtph_ps(
                       0xffff, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + first))));
#elif defined(__F16C__)
  for (; first + 8 <= n; first += 8)
    _mm256_storeu_ps(
        y + first,
        _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + first))));
#endif
  for (std::int64_t i = first; i < n; ++i) {
    const std::uint32_t h = from[i], fraction = h & 0x3ffu, exponent = h & 0x7c00u;
    const std::uint32_t normal = ((h & 0x7fffu) << 13) + 0x38000000u;
    const std::uint32_t small =
        bitsOf(static_cast<float>(static_cast<std::int32_t>(fraction)) * 0x1p-24f);
    const std::uint32_t finite = exponent == 0 ? small : normal;
    const std::uint32_t bits = exponent == 0x7c00u ? kInfinity | fraction << 13 : finite;
    y[i] = floatOf(bits | (h & 0x8000u) << 16);
  }
}

void encodeBf16(std::int64_t n, const float* x, std::byte*, std::byte* values) {
  Coded16* to = reinterpret_cast<Coded16*>(values);
  forVectors(n, [=](std::int64_t i, auto lanes) {
    const Mask f = (Mask)loadPart(x + i, lanes), all = f & 0x7fffffff;
    const Mask a = all < 0x7f7f0000 ? all : Mask{} + 0x7f7f0000;
    const Mask finite = (a + 0x7fff + ((a >> 16) & 1)) >> 16;
    const Mask infinity = Mask{} + static_cast<std::int32_t>(kInfinity);
    const Mask rest = all > infinity ? Mask{} + 0x7fc0 : Mask{} + 0x7f80;
    store16(to + i, ((f >> 16) & 0x8000) | (all >= infinity ? rest : finite), lanes);
  });
}

void decodeBf16(std::int64_t n, const std::byte*, const std::byte* values, float* y) {
  const Coded16* from = reinterpret_cast<const Coded16*>(values);
  forVectors(n, [=](std::int64_t i, auto lanes) {
    storePart(y + i, (Vec)(load16(from + i, lanes) << 16), lanes);
  });
}

void encodeInt8(std::int64_t n, const float* x, std::byte* scales, std::byte* values) {
  CodedF32* scaleOf = reinterpret_cast<CodedF32*>(scales);
  auto* to = reinterpret_cast<std::int8_t*>(values);
  for (std::int64_t first = 0; first < n; first += kScaledTogether) {
    const std::int64_t last = first + kScaledTogether < n ? first + kScaledTogether : n;
    std::uint32_t largest = 0;  // bits of the largest magnitude, which order like the magnitudes
    for (std::int64_t i = first; i < last; ++i) {
      const std::uint32_t bits = bitsOf(x[i]) & 0x7fffffffu;
      largest = bits > largest ? bits : largest;
    }
    const float scale =
        largest >= kInfinity ? floatOf(kInfinity | 1u << 22) : floatOf(largest) / 127.0f;
    scaleOf[first / kScaledTogether] = scale;
    // If the scale cannot distinguish any value, all become 0.
    const bool none = largest >= kInfinity || scale == 0.0f;
    const float by = none ? 1.0f : scale;
    constexpr float kRound = 12582912.0f;  // 1.5·2²³: adding it rounds to an integer
    for (std::int64_t i = first; i < last; ++i) {
      float q = (x[i] / by + kRound) - kRound;
      q = q < -127.0f ? -127.0f : q;
      q = q > 127.0f ? 127.0f : q;
      to[i] = static_cast<std::int8_t>(none ? 0 : static_cast<std::int32_t>(q));
    }
  }
}

void decodeInt8(std::int64_t n, const std::byte* scales, const std::byte* values, float* y) {
  const CodedF32* scaleOf = reinterpret_cast<const CodedF32*>(scales);
  const auto* from = reinterpret_cast<const std::int8_t*>(values);
  for (std::int64_t first = 0; first < n; first += kScaledTogether) {
    const std::int64_t last = first + kScaledTogether < n ? first + kScaledTogether : n;
    const float scale = scaleOf[first / kScaledTogether];
    for (std::int64_t i = first; i < last; ++i) y[i] = static_cast<float>(from[i]) * scale;
  }
}

void castToBf16(std::int64_t n, const float* x, std::byte* y) { encodeBf16(n, x, nullptr, y); }

// Bit-identical with and without conversion instructions, except for NaN payloads.
void castToFp16(std::int64_t n, const float* x, std::byte* y) {
  Coded16* to = reinterpret_cast<Coded16*>(y);
  std::int64_t first = 0;
#if defined(__AVX512F__)
  constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  for (; first + 16 <= n; first += 16)
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + first),
                        _mm512_maskz_cvtps_ph(0xffff, _mm512_loadu_ps(x + first), kNearest));
#elif defined(__F16C__)
  constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  for (; first + 8 <= n; first += 8)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + first),
                     _mm256_cvtps_ph(_mm256_loadu_ps(x + first), kNearest));
#endif
  for (std::int64_t i = first; i < n; ++i) {
    const std::uint32_t f = bitsOf(x[i]), a = f & 0x7fffffffu;
    const std::uint32_t normal =
        least((a + 0xfffu + ((a >> 13) & 1u) - 0x38000000u) >> 13, 0x7c00u);
    const std::uint32_t small = bitsOf(floatOf(a) + 0.5f) - 0x3f000000u;  // as in encodeFp16
    const std::uint32_t number = a < 0x38800000u ? small : normal;
    to[i] = static_cast<std::uint16_t>(((f >> 16) & 0x8000u) | (a > kInfinity ? 0x7e00u : number));
  }
}

void subtract(std::int64_t n, const float* a, const float* b, float* y) {
  for (std::int64_t i = 0; i < n; ++i) y[i] = a[i] - b[i];
}

}  // namespace
}  // namespace lockstep::backends::cpu
