// Vector types of the instruction set that a kernels_<isa>.cc is compiled for. Part of
// kernels_body.h.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace lockstep::backends::cpu {
namespace {

#if defined(__AVX512F__)
constexpr int kWidth = 16;
#elif defined(__AVX2__)
constexpr int kWidth = 8;
#else
constexpr int kWidth = 4;
#endif
typedef float Vec __attribute__((vector_size(kWidth * 4), aligned(4), may_alias));
typedef std::int32_t Mask __attribute__((vector_size(kWidth * 4), aligned(4), may_alias));

inline Vec load(const float* p) { return *reinterpret_cast<const Vec*>(p); }
inline void store(float* p, Vec v) { *reinterpret_cast<Vec*>(p) = v; }
inline Vec splat(float x) { return x - Vec{}; }
inline Vec where(Mask mask, Vec a, Vec b) { return mask ? a : b; }
// a > b ? a : b and a < b ? a : b; hence b if either is NaN.
inline Vec larger(Vec a, Vec b) {
#if defined(__AVX512F__)
  return static_cast<Vec>(
      _mm512_maskz_max_ps(0xffff, static_cast<__m512>(a), static_cast<__m512>(b)));
#elif defined(__AVX2__)
  return static_cast<Vec>(_mm256_max_ps(static_cast<__m256>(a), static_cast<__m256>(b)));
#else
  return static_cast<Vec>(_mm_max_ps(static_cast<__m128>(a), static_cast<__m128>(b)));
#endif
}
inline Vec smaller(Vec a, Vec b) {
#if defined(__AVX512F__)
  return static_cast<Vec>(
      _mm512_maskz_min_ps(0xffff, static_cast<__m512>(a), static_cast<__m512>(b)));
#elif defined(__AVX2__)
  return static_cast<Vec>(_mm256_min_ps(static_cast<__m256>(a), static_cast<__m256>(b)));
#else
  return static_cast<Vec>(_mm_min_ps(static_cast<__m128>(a), static_cast<__m128>(b)));
#endif
}
// Returns the larger; NaN if either is NaN.
inline Vec maximum(Vec a, Vec b) { return where(a == a, larger(a, b), a); }
// ReLU; propagates NaN.
inline Vec rectified(Vec v) { return larger(Vec{}, v); }
inline Vec squareRoot(Vec v) {
#if defined(__AVX512F__)
  return static_cast<Vec>(_mm512_maskz_sqrt_ps(0xffff, static_cast<__m512>(v)));
#elif defined(__AVX2__)
  return static_cast<Vec>(_mm256_sqrt_ps(static_cast<__m256>(v)));
#else
  return static_cast<Vec>(_mm_sqrt_ps(static_cast<__m128>(v)));
#endif
}

#if defined(__AVX2__) && !defined(__AVX512F__)
inline __m256i lanes(std::int64_t n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)),
                            _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
#endif
// The first `n` lanes, 0 < n <= kWidth; others read as 0 and are not written.
inline Vec loadPart(const float* p, std::int64_t n) {
  if (n == kWidth) return load(p);
#if defined(__AVX512F__)
  return static_cast<Vec>(_mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << n) - 1), p));
#elif defined(__AVX2__)
  return static_cast<Vec>(_mm256_maskload_ps(p, lanes(n)));
#else
  Vec v{};
  for (std::int64_t i = 0; i < n; ++i) v[i] = p[i];
  return v;
#endif
}
inline void storePart(float* p, Vec v, std::int64_t n) {
  if (n == kWidth) return store(p, v);
#if defined(__AVX512F__)
  _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1u << n) - 1), static_cast<__m512>(v));
#elif defined(__AVX2__)
  _mm256_maskstore_ps(p, lanes(n), static_cast<__m256>(v));
#else
  for (std::int64_t i = 0; i < n; ++i) p[i] = v[i];
#endif
}
inline std::int64_t least(std::int64_t a, std::int64_t b) { return a < b ? a : b; }

// Mask of the first n lanes.
inline Mask firstLanes(std::int64_t n) {
  Mask lane;
  for (int i = 0; i < kWidth; ++i) lane[i] = i;
  return lane < Mask{} + static_cast<std::int32_t>(n);
}
// Reduces all lanes with f by halving.
template <int kHalf = kWidth / 2, typename F>
[[gnu::always_inline]] inline float folded(Vec v, F f) {
  if constexpr (kHalf == 0) {
    return v[0];
  } else {
#if __has_builtin(__builtin_shuffle)
    Mask other;
    for (int i = 0; i < kWidth; ++i) other[i] = i ^ kHalf;
    const Vec swapped = __builtin_shuffle(v, other);
#else
    Vec swapped;
    for (int i = 0; i < kWidth; ++i) swapped[i] = v[i ^ kHalf];
#endif
    return folded<kHalf / 2>(f(v, swapped), f);
  }
}
inline float total(Vec v) {
  return folded(v, [](Vec a, Vec b) { return a + b; });
}
inline float largestOf(Vec v) { return folded(v, larger); }

// All lanes; a compile-time constant for f below.
struct AllLanes {
  constexpr operator std::int64_t() const { return kWidth; }
};
// Calls f(i, lanes) over n elements in vectors.
template <typename F>
[[gnu::always_inline]] inline void forVectors(std::int64_t n, F f) {
  std::int64_t i = 0;
  for (; i + kWidth <= n; i += kWidth) f(i, AllLanes{});
  if (i < n) f(i, n - i);
}

}  // namespace
}  // namespace lockstep::backends::cpu
