// Matmul of 16-bit operands by a warp's tensor cores: operands and accumulators in fragments
// (intrinsics.h), tiles in shared memory.
#pragma once

#include "engine/backends/cuda/block.h"

namespace lockstep::backends::cuda {

// Operand formats.
struct InBf16 {
  static LOCKSTEP_DEVICE unsigned pack(float first, float second) {
    return packBf16(first, second);
  }
  static LOCKSTEP_DEVICE unsigned bits(float x) { return toBf16(x).bits; }  // as kCast rounds
  static LOCKSTEP_DEVICE float valueOf(unsigned bits) {
    return cuda::valueOf(Bf16{static_cast<std::uint16_t>(bits)});
  }
  static LOCKSTEP_DEVICE void multiply(float (&d)[4], const unsigned (&a)[4], unsigned b0,
                                       unsigned b1) {
    multiplyBf16(d, a, b0, b1);
  }
};
struct InF16 {
  static LOCKSTEP_DEVICE unsigned pack(float first, float second) { return packF16(first, second); }
  static LOCKSTEP_DEVICE unsigned bits(float x) { return toF16(x).bits; }
  static LOCKSTEP_DEVICE float valueOf(unsigned bits) {
    return cuda::valueOf(F16{static_cast<std::uint16_t>(bits)});
  }
  static LOCKSTEP_DEVICE void multiply(float (&d)[4], const unsigned (&a)[4], unsigned b0,
                                       unsigned b1) {
    multiplyF16(d, a, b0, b1);
  }
};

struct alignas(8) Two {
  float x[2];
};
inline constexpr float kLog2e = 1.4426950408889634f;  // to compute e^x as 2^(x·log2 e)
inline constexpr int kFragment = 16;                  // rows and columns of a left operand

LOCKSTEP_DEVICE int laneOf() { return static_cast<int>(threadIdx.x % kWarp); }
LOCKSTEP_DEVICE int warpOf() { return static_cast<int>(threadIdx.x / kWarp); }

// A row of a tile in shared memory. The pitch is 16 bytes beyond a multiple of 128, so that eight
// consecutive rows cover all banks.
template <int kColumns>
struct alignas(16) TileRow {
  static_assert(kColumns % 64 == 0);
  std::uint16_t x[kColumns + 8];
};

// Starts copying rows first … first + kRows of x into shared memory, zero-filled beyond the last;
// by all threads of the block, asynchronously.
template <int kRows, int kColumns>
LOCKSTEP_DEVICE void copyRows(TileRow<kColumns> (&to)[kRows], const std::uint16_t* x, int first,
                              int rows) {
  constexpr int kEach = kColumns / 8;
  for (int i = static_cast<int>(threadIdx.x); i < kRows * kEach;
       i += static_cast<int>(kTensorThreads)) {
    const int r = i / kEach, c = i % kEach * 8;
    const bool there = first + r < rows;
    cpAsync<16>(to[r].x + c, x + static_cast<Index>(there ? first + r : 0) * kColumns + c, there);
  }
}

// Loads a left operand of 16 rows and columns.
template <int kColumns>
LOCKSTEP_DEVICE void loadLeft(unsigned (&a)[4], const TileRow<kColumns>* rows, int column) {
  loadMatrices(a, rows[laneOf() % 16].x + column + laneOf() / 16 * 8);
}
// The same from device memory, zero-filled beyond the last row.
template <int kColumns>
LOCKSTEP_DEVICE void readLeft(unsigned (&a)[4], const std::uint16_t* x, int first, int rows,
                              int column) {
  LOCKSTEP_UNROLL
  for (int i = 0; i < 4; ++i) {
    const int r = first + laneOf() / 4 + i % 2 * 8, c = column + laneOf() % 4 * 2 + i / 2 * 8;
    a[i] =
        r < rows ? *reinterpret_cast<const unsigned*>(x + static_cast<Index>(r) * kColumns + c) : 0;
  }
}
// Loads two right operands, b[0..1] and b[2..3]: their 16 rows are the tile's columns from `column`
// on, their 8 columns each the tile's rows.
template <int kColumns>
LOCKSTEP_DEVICE void loadRightOfRows(unsigned (&b)[4], const TileRow<kColumns>* rows, int column) {
  const int matrix = laneOf() / 8;
  loadMatrices(b, rows[matrix / 2 * 8 + laneOf() % 8].x + column + matrix % 2 * 8);
}
// Loads two right operands whose rows are 16 of the tile's rows, and whose columns are the tile's
// columns from `column` on.
template <int kColumns>
LOCKSTEP_DEVICE void loadRightOfColumns(unsigned (&b)[4], const TileRow<kColumns>* rows,
                                        int column) {
  loadTransposed(b, rows[laneOf() % 16].x + column + laneOf() / 16 * 8);
}
// Packs two accumulators of adjacent columns as the left operand of another multiplication.
template <typename F>
LOCKSTEP_DEVICE void packLeft(unsigned (&a)[4], const float (&d)[4], const float (&next)[4]) {
  a[0] = F::pack(d[0], d[1]);
  a[1] = F::pack(d[2], d[3]);
  a[2] = F::pack(next[0], next[1]);
  a[3] = F::pack(next[2], next[3]);
}
// Row and column of accumulator element e.
LOCKSTEP_DEVICE int rowOf(int e) { return laneOf() / 4 + e / 2 * 8; }
LOCKSTEP_DEVICE int columnOf(int e) { return laneOf() % 4 * 2 + e % 2; }

}  // namespace lockstep::backends::cuda
