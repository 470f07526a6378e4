// Products. Part of kernels_body.h.
#pragma once

#include <cstdint>

#include "engine/backends/cpu/kernels.h"
#include "engine/backends/cpu/vectors.h"

namespace lockstep::backends::cpu {
namespace {

// A tile of R rows and V vectors stays in registers over a block of k; b is one packed panel
// of V vectors a row. A block's sums begin at 0 and what stands in c is added to them at the end, so
// that nothing waits for c. The blocks of k follow from k and its stride alone: a row or a column of the
// result has the same bits whatever others are computed with it.

// How the rows of a tile lie: by tables of offsets, by strides, or R elements a k.
enum class Rows { kOffsets, kStrided, kPacked };
constexpr int kPackedVectors = 2, kPackedPanel = kPackedVectors * kWidth;

struct Tile {
  std::int64_t k;
  const float* a;
  const std::int64_t *rowOffset, *kOffset;
  std::int64_t rowStride, kStride;
  const float* b;
  std::int64_t ldb;  // kPackedPanel but where by offsets
  float* c;
  std::int64_t ldc;
  const float* start;  // what a row begins with where not accumulating; V vectors
  bool accumulate, relu;
  std::int64_t last;   // lanes of the last vector
};

template <int R, int V, Rows kRowsLie>
void tile(const Tile& t) {
  Vec sum[R][V];
#pragma GCC unroll 16
  for (int i = 0; i < R; ++i) {
    __builtin_prefetch(t.c + i * t.ldc, 1);
    if constexpr (V * kWidth > 16) __builtin_prefetch(t.c + i * t.ldc + 16, 1);
#pragma GCC unroll 4
    for (int j = 0; j < V; ++j) sum[i][j] = Vec{};
  }
  const float* b = t.b;
  const std::int64_t ldb = kRowsLie == Rows::kOffsets ? t.ldb : kPackedPanel;
  const auto step = [&](auto a) {
    Vec y[V];
#pragma GCC unroll 4
    for (int j = 0; j < V; ++j) y[j] = load(b + j * kWidth);
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i) {
      const Vec x = splat(a(i));
#pragma GCC unroll 4
      for (int j = 0; j < V; ++j) sum[i][j] += x * y[j];
    }
  };
  if constexpr (kRowsLie == Rows::kPacked) {
    const float* a = t.a;
#pragma GCC unroll 4
    for (std::int64_t k = 0; k < t.k; ++k, a += R, b += ldb) step([=](int i) { return a[i]; });
  } else {
    const float* p[R];
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i) p[i] = t.a + (kRowsLie == Rows::kStrided ? i * t.rowStride : t.rowOffset[i]);
    if constexpr (kRowsLie == Rows::kStrided) {
      std::int64_t at = 0;
      for (std::int64_t k = 0; k < t.k; ++k, at += t.kStride, b += ldb) step([&](int i) { return p[i][at]; });
    } else {
      const std::int64_t* offset = t.kOffset;
      for (const std::int64_t* end = offset + t.k; offset < end; ++offset, b += ldb) {
        const std::int64_t at = *offset;
        step([&](int i) { return p[i][at]; });
      }
    }
  }
  float* row = t.c;
#pragma GCC unroll 16
  for (int i = 0; i < R; ++i, row += t.ldc) {
#pragma GCC unroll 4
    for (int j = 0; j < V; ++j) {
      const std::int64_t lanes = j + 1 < V ? kWidth : t.last;
      Vec v = sum[i][j] + (t.accumulate ? loadPart(row + j * kWidth, lanes) : load(t.start + j * kWidth));
      if (t.relu) v = larger(v, Vec{});
      storePart(row + j * kWidth, v, lanes);
    }
  }
}

using TileFunction = void (*)(const Tile&);
constexpr int kMaxRows = 14;
#if defined(__AVX512F__)
constexpr int kRows[5] = {0, 14, 12, 8, 6};
#else
constexpr int kRows[5] = {0, 8, 6, 4, 3};
#endif
template <int R, int V, Rows kRowsLie>
constexpr TileFunction tileOf() {
  if constexpr (R <= kRows[V]) return tile<R, V, kRowsLie>;
  else return nullptr;
}
#define LOCKSTEP_TILES(V, P)                                                                      \
  {nullptr, tileOf<1, V, P>(), tileOf<2, V, P>(), tileOf<3, V, P>(), tileOf<4, V, P>(),           \
   tileOf<5, V, P>(), tileOf<6, V, P>(), tileOf<7, V, P>(), tileOf<8, V, P>(), tileOf<9, V, P>(), \
   tileOf<10, V, P>(), tileOf<11, V, P>(), tileOf<12, V, P>(), tileOf<13, V, P>(), tileOf<14, V, P>()}
constexpr TileFunction kTiles[5][kMaxRows + 1] = {
    {}, LOCKSTEP_TILES(1, Rows::kOffsets), LOCKSTEP_TILES(2, Rows::kOffsets), LOCKSTEP_TILES(3, Rows::kOffsets),
    LOCKSTEP_TILES(4, Rows::kOffsets)};
constexpr TileFunction kPackedTiles[kPackedVectors + 1][kMaxRows + 1] = {
    {}, LOCKSTEP_TILES(1, Rows::kPacked), LOCKSTEP_TILES(2, Rows::kPacked)};
constexpr TileFunction kStridedTiles[kPackedVectors + 1][kMaxRows + 1] = {
    {}, LOCKSTEP_TILES(1, Rows::kStrided), LOCKSTEP_TILES(2, Rows::kStrided)};
#undef LOCKSTEP_TILES

// to[i·stride + r] = from[r][i] of n ≤ 8 lines, for i < k; the rest of 8 elements is undefined.
void interleave(std::int64_t n, const float* const* from, std::int64_t k, float* to, std::int64_t stride) {
  std::int64_t i = 0;
#if defined(__AVX2__)
  const float* lines[8];
  for (std::int64_t r = 0; r < 8; ++r) lines[r] = from[r < n ? r : 0];
  for (; i + 8 <= k; i += 8) {
    __m256 x[8], y[8];
#pragma GCC unroll 8
    for (int r = 0; r < 8; ++r) x[r] = _mm256_loadu_ps(lines[r] + i);
#pragma GCC unroll 4
    for (int r = 0; r < 8; r += 2) {
      y[r] = _mm256_unpacklo_ps(x[r], x[r + 1]);
      y[r + 1] = _mm256_unpackhi_ps(x[r], x[r + 1]);
    }
#pragma GCC unroll 2
    for (int r = 0; r < 8; r += 4) {
      x[r] = _mm256_shuffle_ps(y[r], y[r + 2], 0x44);
      x[r + 1] = _mm256_shuffle_ps(y[r], y[r + 2], 0xee);
      x[r + 2] = _mm256_shuffle_ps(y[r + 1], y[r + 3], 0x44);
      x[r + 3] = _mm256_shuffle_ps(y[r + 1], y[r + 3], 0xee);
    }
#pragma GCC unroll 8
    for (int r = 0; r < 8; ++r)
      _mm256_storeu_ps(to + (i + r) * stride,
                       r < 4 ? _mm256_permute2f128_ps(x[r], x[r + 4], 0x20)
                             : _mm256_permute2f128_ps(x[r - 4], x[r], 0x31));
  }
#endif
  for (; i < k; ++i)
    for (std::int64_t r = 0; r < n; ++r) to[i * stride + r] = from[r][i];
}

// k rows of `width` columns of b, which is k×width, or width×k where `transposed`; `panel` a row, the rest 0.
void packPanel(const float* b, std::int64_t ldb, bool transposed, std::int64_t k, std::int64_t width,
               std::int64_t panel, float* to) {
  if (width == panel && !transposed) {
    for (std::int64_t i = 0; i < k; ++i)
      for (std::int64_t j = 0; j < panel; j += kWidth) store(to + i * panel + j, load(b + i * ldb + j));
    return;
  }
  if (width < panel)
    for (std::int64_t i = 0; i < k * panel; ++i) to[i] = 0;
  if (transposed) {
    std::int64_t j = 0;
    for (; j + 8 <= width; j += 8) {
      const float* lines[8];
      for (int r = 0; r < 8; ++r) lines[r] = b + (j + r) * ldb;
      interleave(8, lines, k, to + j, panel);
    }
    for (; j < width; ++j)
      for (std::int64_t i = 0; i < k; ++i) to[i * panel + j] = b[j * ldb + i];
    return;
  }
  for (std::int64_t i = 0; i < k; ++i)
    for (std::int64_t j = 0; j < width; ++j) to[i * panel + j] = b[i * ldb + j];
}
// Where element (k, j) of b is.
inline const float* panelAt(const Gemm& g, std::int64_t k, std::int64_t j) {
  return g.b + (g.transposed ? j * g.ldb + k : k * g.ldb + j);
}

// Part i of n whole things in `parts` parts.
inline std::int64_t cut(std::int64_t n, std::int64_t i, std::int64_t parts) { return i * n / parts; }

// Chunks of a's rows beside each other, each `stride` elements from the one before it, of R elements a k; up to
// kPackSlack are written behind one.
constexpr std::int64_t kTileRows = kRows[kPackedVectors];
inline std::int64_t chunkStride(std::int64_t k) { return kTileRows * k + kPackSlack; }
static_assert(kTileRows <= kPackSlack && kWidth <= kPackSlack);

void packChunks(const Gemm& g, std::int64_t k0, std::int64_t k, std::int64_t first, std::int64_t end,
                std::int64_t chunks, float* to) {
  const std::int64_t *row = g.rowOffset, *ks = g.kOffset + k0, stride = chunkStride(k);
  const std::int64_t top = cut(g.rows, first, chunks), bottom = cut(g.rows, end, chunks);
  const bool along = ks[k - 1] - ks[0] == k - 1;
  if (!along && kTileRows <= kWidth && row[bottom - 1] - row[top] == bottom - 1 - top) {
    // All that a k has here at once: what is written behind a chunk's k is its next one's.
    for (std::int64_t i = 0; i < k; ++i) {
      const float* from = g.a + ks[i] - top + row[top];
      for (std::int64_t chunk = first; chunk < end; ++chunk) {
        const std::int64_t r0 = cut(g.rows, chunk, chunks), rows = cut(g.rows, chunk + 1, chunks) - r0;
        store(to + (chunk - first) * stride + i * rows, loadPart(from + r0, least(kWidth, bottom - r0)));
      }
    }
    return;
  }
  for (std::int64_t chunk = first; chunk < end; ++chunk, to += stride) {
    const std::int64_t r0 = cut(g.rows, chunk, chunks), rows = cut(g.rows, chunk + 1, chunks) - r0;
    if (along && rows <= 8) {
      const float* lines[8] = {};
      for (std::int64_t r = 0; r < rows; ++r) lines[r] = g.a + row[r0 + r] + ks[0];
      interleave(rows, lines, k, to, rows);
    } else {
      for (std::int64_t i = 0; i < k; ++i)
        for (std::int64_t r = 0; r < rows; ++r) to[i * rows + r] = g.a[row[r0 + r] + ks[i]];
    }
  }
}

// Panels of many columns beside a block of packed rows.
void gemmPacked(const Gemm& g) {
  constexpr std::int64_t kColumns = kPackColumns / kPackedPanel * kPackedPanel;
  constexpr std::int64_t kBlockChunks = kPackRows / kTileRows;
  Packs& packs = packsOfThread();
  const std::int64_t chunks = (g.rows + kTileRows - 1) / kTileRows;
  const std::int64_t panels = (g.cols + kPackedPanel - 1) / kPackedPanel;
  const std::int64_t blocks = (g.k + kPackDepth - 1) / kPackDepth;
  const std::int64_t wide = (panels + kColumns / kPackedPanel - 1) / (kColumns / kPackedPanel);
  const std::int64_t high = (chunks + kBlockChunks - 1) / kBlockChunks;
  float start[kPackedPanel];
  for (std::int64_t block = 0; block < blocks; ++block) {
    const std::int64_t k0 = cut(g.k, block, blocks), k = cut(g.k, block + 1, blocks) - k0;
    for (std::int64_t w = 0; w < wide; ++w) {
      const std::int64_t firstPanel = cut(panels, w, wide), endPanel = cut(panels, w + 1, wide);
      for (std::int64_t p = firstPanel; p < endPanel; ++p)
        packPanel(panelAt(g, k0, p * kPackedPanel), g.ldb, g.transposed, k,
                  least(kPackedPanel, g.cols - p * kPackedPanel), kPackedPanel,
                  packs.b + (p - firstPanel) * k * kPackedPanel);
      for (std::int64_t h = 0; h < high; ++h) {
        const std::int64_t firstChunk = cut(chunks, h, high), endChunk = cut(chunks, h + 1, high);
        packChunks(g, k0, k, firstChunk, endChunk, chunks, packs.a);
        for (std::int64_t p = firstPanel; p < endPanel; ++p) {
          const std::int64_t j0 = p * kPackedPanel, width = least(kPackedPanel, g.cols - j0);
          const std::int64_t used = (width + kWidth - 1) / kWidth;
          for (std::int64_t j = 0; j < kPackedPanel; ++j) start[j] = g.bias && j < width ? g.bias[j0 + j] : 0;
          Tile t{k, nullptr, nullptr, nullptr, 0, 0, packs.b + (p - firstPanel) * k * kPackedPanel, kPackedPanel,
                 nullptr, g.ldc, start, g.accumulate || k0 > 0, g.relu && k0 + k == g.k,
                 width - (used - 1) * kWidth};
          for (std::int64_t chunk = firstChunk; chunk < endChunk; ++chunk) {
            const std::int64_t from = cut(g.rows, chunk, chunks);
            t.a = packs.a + (chunk - firstChunk) * chunkStride(k);
            t.c = g.c + from * g.ldc + j0;
            kPackedTiles[used][cut(g.rows, chunk + 1, chunks) - from](t);
          }
        }
      }
    }
  }
}

// The most k of one panel beside rows that are read where they lie: it stays in the nearest cache. Where k
// strides through `a`, every element of a row is in a cache line and perhaps a page of its own.
constexpr std::int64_t kBlock = 256, kStridedBlock = 128;
static_assert(kBlock * 4 * kWidth <= kPackDepth * kPackColumns);

// One panel after the other, the rows read where they lie.
void gemmPanels(const Gemm& g) {
  const int vectors = g.cols <= kWidth ? 1 : (kWidth < 16 && g.cols == 4 * kWidth) ? 4 : 2;
  const std::int64_t panel = vectors * kWidth;
  const std::int64_t chunks = (g.rows + kRows[vectors] - 1) / kRows[vectors];
  // A row of exactly one panel is packed as it stands.
  const bool direct = !g.transposed && g.cols == panel;
  float* const packed = packsOfThread().b;
  float start[4 * kWidth];
  const bool strided = g.k > 1 && g.kOffset[1] - g.kOffset[0] > kWidth;
  const std::int64_t most = strided ? kStridedBlock : kBlock;
  const std::int64_t blocks = g.k > most ? (g.k + most - 1) / most : 1;
  for (std::int64_t block = 0; block < blocks; ++block) {
    const std::int64_t k0 = cut(g.k, block, blocks), k = cut(g.k, block + 1, blocks) - k0;
    for (std::int64_t j0 = 0; j0 < g.cols; j0 += panel) {
      const std::int64_t width = least(panel, g.cols - j0);
      const int used = static_cast<int>((width + kWidth - 1) / kWidth);
      if (!direct) packPanel(panelAt(g, k0, j0), g.ldb, g.transposed, k, width, panel, packed);
      for (std::int64_t j = 0; j < panel; ++j) start[j] = g.bias && j < width ? g.bias[j0 + j] : 0;
      Tile t{k, g.a, nullptr, g.kOffset + k0, 0, 0, direct ? g.b + k0 * g.ldb : packed,
             direct ? g.ldb : panel, nullptr, g.ldc, start, g.accumulate || k0 > 0,
             g.relu && k0 + k == g.k, width - (used - 1) * kWidth};
      // Rows are shared out evenly, so that no tile is too small to keep the units busy.
      for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
        const std::int64_t from = cut(g.rows, chunk, chunks);
        t.rowOffset = g.rowOffset + from;
        t.c = g.c + from * g.ldc + j0;
        kTiles[used][cut(g.rows, chunk + 1, chunks) - from](t);
      }
    }
  }
}

void gemm(const Gemm& g) { g.packed && g.k > 0 ? gemmPacked(g) : gemmPanels(g); }

}  // namespace
}  // namespace lockstep::backends::cpu
