// Matmul of bf16 operands with f32 accumulation. Part of kernels_body.h. Processors with
// AVX-512-bf16 add two products per instruction; elsewhere the same is emulated, which also serves
// to test it.
#pragma once

#include <cstdint>

#include "engine/backends/cpu/kernels.h"
#include "engine/backends/cpu/vectors.h"

namespace lockstep::backends::cpu {
namespace {

// Both operands are packed in pairs along k, the first in the low half of 32 bits: `a` as kTile16
// adjacent rows, `b` as panels of kPanel16 columns. A tile of the result stays in registers over a
// block of k. Blocks depend on k alone, so an element's bits are independent of the rows and
// columns beside it.
constexpr int kTile16 = kWidth == 16 ? 12 : 4, kVectors16 = 2, kPanel16 = kVectors16 * kWidth;
static_assert(kPackRows16 % kTile16 == 0 && kPackColumns16 % kPanel16 == 0);

// Returns sum + the two products of each lane's halves.
inline Vec addPairs(Vec sum, Mask a, Mask b) {
#if defined(__AVX512BF16__)
  return (Vec)_mm512_dpbf16_ps((__m512)sum, (__m512bh)a, (__m512bh)b);
#else
  const Mask high = Mask{} - 0x10000;  // 0xffff0000 in each
  sum += (Vec)(a << 16) * (Vec)(b << 16);
  return sum + (Vec)(a & high) * (Vec)(b & high);
#endif
}

// to[p·pitch + i] = elements (i, 2p) and (i, 2p + 1) for i < n, zero-padded to `pitch`; over `k`
// elements.
inline void packPairs(std::int64_t n, std::int64_t pitch, std::int64_t k, const std::uint16_t* from,
                      std::int64_t stride, std::int64_t kStride, std::uint32_t* to) {
  for (std::int64_t p = 0; 2 * p < k; ++p, to += pitch) {
    const std::uint16_t* low = from + 2 * p * kStride;
    const std::uint16_t* high = low + kStride;
    if (2 * p + 1 == k)
      for (std::int64_t i = 0; i < n; ++i) to[i] = low[i * stride];
    else if (stride == 1)
      for (std::int64_t i = 0; i < n; ++i) to[i] = low[i] | std::uint32_t{high[i]} << 16;
    else
      for (std::int64_t i = 0; i < n; ++i)
        to[i] = low[i * stride] | std::uint32_t{high[i * stride]} << 16;
    for (std::int64_t i = n; i < pitch; ++i) to[i] = 0;
  }
}

struct Tile16 {
  std::int64_t pairs;
  const std::uint32_t *a, *b;
  float* c;
  std::int64_t ldc, rows, cols;
  const float* bias;  // for the first block of k; null: none
  bool accumulate, relu;
};

void tile16(const Tile16& t) {
  Vec sum[kTile16][kVectors16];
#pragma GCC unroll 12
  for (int i = 0; i < kTile16; ++i)
#pragma GCC unroll 2
    for (int j = 0; j < kVectors16; ++j) sum[i][j] = Vec{};
  const std::uint32_t *a = t.a, *b = t.b;
  for (std::int64_t p = 0; p < t.pairs; ++p, a += kTile16, b += kPanel16) {
    Mask y[kVectors16];
#pragma GCC unroll 2
    for (int j = 0; j < kVectors16; ++j) y[j] = *reinterpret_cast<const Mask*>(b + j * kWidth);
#pragma GCC unroll 12
    for (int i = 0; i < kTile16; ++i) {
      const Mask x = Mask{} + static_cast<std::int32_t>(a[i]);
#pragma GCC unroll 2
      for (int j = 0; j < kVectors16; ++j) sum[i][j] = addPairs(sum[i][j], x, y[j]);
    }
  }
#pragma GCC unroll 12
  for (int i = 0; i < kTile16; ++i)
#pragma GCC unroll 2
    for (int j = 0; j < kVectors16; ++j) {
      if (i >= t.rows || j * kWidth >= t.cols) continue;
      const std::int64_t lanes = least(t.cols - j * kWidth, kWidth);
      float* c = t.c + i * t.ldc + j * kWidth;
      Vec v = sum[i][j];
      if (t.accumulate)
        v += loadPart(c, lanes);
      else if (t.bias != nullptr)
        v += loadPart(t.bias + j * kWidth, lanes);
      if (t.relu) v = rectified(v);
      storePart(c, v, lanes);
    }
}

void gemm16(const Gemm16& g) {
  Packs16& packs = packs16OfThread();
  for (std::int64_t k = 0; k == 0 || k < g.k; k += kPackDepth16) {
    const std::int64_t depth = least(kPackDepth16, g.k - k), pairs = (depth + 1) / 2;
    for (std::int64_t col = 0; col < g.cols; col += kPackColumns16) {
      const std::int64_t cols = least(kPackColumns16, g.cols - col);
      for (std::int64_t j = 0; j < cols; j += kPanel16)
        packPairs(least(kPanel16, cols - j), kPanel16, depth,
                  g.b + k * g.bK + (col + j) * g.bColumn, g.bColumn, g.bK, packs.b + j * pairs);
      for (std::int64_t row = 0; row < g.rows; row += kPackRows16) {
        const std::int64_t rows = least(kPackRows16, g.rows - row);
        for (std::int64_t i = 0; i < rows; i += kTile16)
          packPairs(least(kTile16, rows - i), kTile16, depth, g.a + (row + i) * g.aRow + k * g.aK,
                    g.aRow, g.aK, packs.a + i * pairs);
        for (std::int64_t j = 0; j < cols; j += kPanel16)
          for (std::int64_t i = 0; i < rows; i += kTile16)
            tile16({pairs, packs.a + i * pairs, packs.b + j * pairs,
                    g.c + (row + i) * g.ldc + col + j, g.ldc, least(kTile16, rows - i),
                    least(kPanel16, cols - j), g.bias == nullptr ? nullptr : g.bias + col + j,
                    k > 0, g.relu && k + kPackDepth16 >= g.k});
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::backends::cpu
