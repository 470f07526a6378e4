// Random numbers, compiled by each random_<isa>.cc. Separate from kernels_body.h because products
// and sums must not be contracted here: numbers are bit-identical with base/random.h on every
// processor.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "engine/backends/cpu/kernels.h"
#include "engine/base/normal.h"

namespace lockstep::backends::cpu {
namespace {

#if defined(__AVX512F__)
constexpr int kDoubles = 8;
#elif defined(__AVX2__)
constexpr int kDoubles = 4;
#else
constexpr int kDoubles = 2;
#endif
typedef double Doubles __attribute__((vector_size(kDoubles * 8)));
typedef std::uint64_t Words __attribute__((vector_size(kDoubles * 8)));
typedef float Floats __attribute__((vector_size(kDoubles * 4), aligned(4), may_alias));

struct Root {
  [[gnu::always_inline]] Doubles operator()(Doubles v) const {
#if defined(__AVX512F__)
    return static_cast<Doubles>(_mm512_maskz_sqrt_pd(0xff, static_cast<__m512d>(v)));
#elif defined(__AVX2__)
    return static_cast<Doubles>(_mm256_sqrt_pd(static_cast<__m256d>(v)));
#else
    return static_cast<Doubles>(_mm_sqrt_pd(static_cast<__m128d>(v)));
#endif
  }
};

template <bool kNormal>
void fillRandom(const Random& o) {
  const Random a = o;
  const Words key = Words{} + a.key;
  constexpr std::uint64_t kEach = kNormal ? 2 : 1;  // words per number
  Words index;
  for (int lane = 0; lane < kDoubles; ++lane)
    index[lane] = kEach * (a.first + static_cast<std::uint64_t>(lane));
  for (std::int64_t i = 0; i < a.n; i += kDoubles, index += std::uint64_t{kEach * kDoubles}) {
    Doubles numbers;
    if constexpr (kNormal) {
      numbers = random::normal<Doubles, Words>(random::word<Words>(key, index),
                                               random::word<Words>(key, index + std::uint64_t{1}),
                                               Root{});
    } else {
      numbers = 2.0 * random::uniform<Doubles, Words>(random::word<Words>(key, index)) - 1.0;
    }
    const Floats y = __builtin_convertvector(numbers * a.scale, Floats);
    if (i + kDoubles <= a.n) {
      *reinterpret_cast<Floats*>(a.y + i) = y;
    } else {
      for (int lane = 0; i + lane < a.n; ++lane) a.y[i + lane] = y[lane];
    }
  }
}

void randomNumbers(const Random& a) { a.normal ? fillRandom<true>(a) : fillRandom<false>(a); }

}  // namespace
}  // namespace lockstep::backends::cpu
