// Matmul in f32. Part of kernels_body.h.
#pragma once

#include <cstdint>

#include "engine/backends/cpu/kernels.h"
#include "engine/backends/cpu/vectors.h"

namespace lockstep::backends::cpu {
namespace {

// A tile of R rows and V vectors stays in registers over a block of k; b is a panel of V vectors
// per row. The previous value of c is added to a block's sums at the end, so that nothing waits for
// c. Blocks depend on k and on the row layout alone: a row or a column of the result has the same
// bits whatever is computed beside it.

// Layout of a tile's rows: by offset tables; contiguous along k, `stride` elements apart; or
// adjacent to each other, `stride` elements between steps of k.
enum class Rows { kOffsets, kAlong, kAcross };

constexpr int kPackedVectors = 2, kPackedPanel = kPackedVectors * kWidth;

struct Tile {
  std::int64_t k;
  const float* a;
  std::int64_t stride;
  const std::int64_t *rowOffset, *kOffset;
  const float* b;
  std::int64_t ldb;
  float* c;
  std::int64_t ldc;
  const float* start;  // initial value of a row, 0 if accumulating; V vectors
  bool accumulate, relu;
  std::int64_t last;  // lanes of the last vector
};

// Up to this k, prefetching c costs more than it saves.
constexpr std::int64_t kShort = 32;

template <int R, int V, Rows kRowsLie>
void tile(const Tile& t) {
  Vec sum[R][V];
  if (t.k > kShort) {
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i) {
      __builtin_prefetch(t.c + i * t.ldc, 1);
      __builtin_prefetch(t.c + i * t.ldc + V * kWidth - 1, 1);
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < R; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < V; ++j) sum[i][j] = load(t.start + j * kWidth);
  }
  const float* b = t.b;
  const std::int64_t ldb = t.ldb;
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
    b += ldb;
  };
  if constexpr (kRowsLie == Rows::kAcross) {
    const float* a = t.a;
    const std::int64_t stride = t.stride;
#pragma GCC unroll 4
    for (std::int64_t k = 0; k < t.k; ++k, a += stride) step([=](int i) { return a[i]; });
  } else if constexpr (kRowsLie == Rows::kAlong) {
    // Addressing three rows from each base address leaves registers for all.
    const float* p[(R + 2) / 3];
#pragma GCC unroll 8
    for (int i = 0; i < R; i += 3) p[i / 3] = t.a + i * t.stride;
    const std::int64_t one = t.stride, two = 2 * t.stride;
    const auto stepAt = [&](std::int64_t k) {
      step([&](int i) { return p[i / 3][k + (i % 3 == 0 ? 0 : i % 3 == 1 ? one : two)]; });
    };
    if constexpr (V <= kPackedVectors) {
#pragma GCC unroll 4
      for (std::int64_t k = 0; k < t.k; ++k) stepAt(k);
    } else {  // no registers left for unrolling
      for (std::int64_t k = 0; k < t.k; ++k) stepAt(k);
    }
  } else {
    const float* p[R];
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i) p[i] = t.a + t.rowOffset[i];
    const std::int64_t* offset = t.kOffset;
    for (const std::int64_t* end = offset + t.k; offset < end; ++offset) {
      const std::int64_t at = *offset;
      step([&](int i) { return p[i][at]; });
    }
  }
  // Calls f(vector of sums, address, lanes) over the tile.
  const auto forTile = [&](auto f) {
    float* row = t.c;
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i, row += t.ldc) {
#pragma GCC unroll 4
      for (int j = 0; j < V; ++j) f(sum[i][j], row + j * kWidth, j);
    }
  };
  const auto finish = [&](auto lanes) {
    if (t.accumulate) forTile([&](Vec& v, float* c, int j) { v += loadPart(c, lanes(j)); });
    if (t.relu) forTile([](Vec& v, float*, int) { v = rectified(v); });
    forTile([&](Vec& v, float* c, int j) { storePart(c, v, lanes(j)); });
  };
  if (t.last == kWidth)
    finish([](int) { return std::int64_t{kWidth}; });
  else
    finish([&](int j) { return j + 1 < V ? std::int64_t{kWidth} : t.last; });
}

using TileFunction = void (*)(const Tile&);
constexpr int kMaxRows = 14;
#if defined(__AVX512F__)
constexpr int kRows[5] = {0, 14, 12};
#else
constexpr int kRows[5] = {0, 8, 6, 0, 3};
#endif
template <int R, int V, Rows kRowsLie>
constexpr TileFunction tileOf() {
  if constexpr (R <= kRows[V])
    return tile<R, V, kRowsLie>;
  else
    return nullptr;
}
#define LOCKSTEP_TILES(V, P)                                                             \
  {                                                                                      \
    nullptr, tileOf<1, V, P>(), tileOf<2, V, P>(), tileOf<3, V, P>(), tileOf<4, V, P>(), \
        tileOf<5, V, P>(), tileOf<6, V, P>(), tileOf<7, V, P>(), tileOf<8, V, P>(),      \
        tileOf<9, V, P>(), tileOf<10, V, P>(), tileOf<11, V, P>(), tileOf<12, V, P>(),   \
        tileOf<13, V, P>(), tileOf<14, V, P>()                                           \
  }
using Tiles = TileFunction[kMaxRows + 1];
constexpr Tiles kTiles[5] = {{},
                             LOCKSTEP_TILES(1, Rows::kOffsets),
                             LOCKSTEP_TILES(2, Rows::kOffsets),
                             {},
                             LOCKSTEP_TILES(4, Rows::kOffsets)};
constexpr Tiles kAlongTiles[5] = {{},
                                  LOCKSTEP_TILES(1, Rows::kAlong),
                                  LOCKSTEP_TILES(2, Rows::kAlong),
                                  {},
                                  LOCKSTEP_TILES(4, Rows::kAlong)};
constexpr Tiles kAcrossTiles[kPackedVectors + 1] = {
    {}, LOCKSTEP_TILES(1, Rows::kAcross), LOCKSTEP_TILES(2, Rows::kAcross)};
#undef LOCKSTEP_TILES

// to[i·stride + r] = from[r][i] for n ≤ 8 rows and i < k; the rest of the 8 elements is undefined.
void interleave(std::int64_t n, const float* const* from, std::int64_t k, float* to,
                std::int64_t stride) {
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
      _mm256_storeu_ps(to + (i + r) * stride, r < 4 ? _mm256_permute2f128_ps(x[r], x[r + 4], 0x20)
                                                    : _mm256_permute2f128_ps(x[r - 4], x[r], 0x31));
  }
#endif
  for (; i < k; ++i)
    for (std::int64_t r = 0; r < n; ++r) to[i * stride + r] = from[r][i];
}

// Packs k rows of `width` columns of b, which is k×width, or width×k if `transposed`, into rows of
// `panel`, zero-padded.
void packPanel(const float* b, std::int64_t ldb, bool transposed, std::int64_t k,
               std::int64_t width, std::int64_t panel, float* to) {
  if (width < panel)
    for (std::int64_t i = 0; i < k * panel; ++i) to[i] = 0;
  std::int64_t j = 0;
  if (transposed) {
    for (; j + 8 <= width; j += 8) {
      const float* lines[8];
      for (int r = 0; r < 8; ++r) lines[r] = b + (j + r) * ldb;
      interleave(8, lines, k, to + j, panel);
    }
    for (; j < width; ++j)
      for (std::int64_t i = 0; i < k; ++i) to[i * panel + j] = b[j * ldb + i];
    return;
  }
  for (; j < width; j += kWidth) {
    const std::int64_t lanes = least(kWidth, width - j);
    for (std::int64_t i = 0; i < k; ++i)
      store(to + i * panel + j, loadPart(b + i * ldb + j, lanes));
  }
}
// Prefetch distance in lines; each line is at a separate address.
constexpr std::int64_t kAhead = 12;

// Packs all panels of `cols` columns, one after another.
void packPanels(const float* b, std::int64_t ldb, bool transposed, std::int64_t k,
                std::int64_t cols, std::int64_t panel, float* to) {
  const std::int64_t whole = transposed ? 0 : cols / panel, each = k * panel;
  for (std::int64_t i = 0; i < k && whole > 0; ++i) {
    const float* from = b + i * ldb;
    float* line = to + i * panel;
    for (std::int64_t p = 0; p < whole; ++p, from += panel, line += each) {
      __builtin_prefetch(from + kAhead * ldb);
      for (std::int64_t j = 0; j < panel; j += kWidth) store(line + j, load(from + j));
    }
  }
  for (std::int64_t j = whole * panel; j < cols; j += panel)
    packPanel(b + (transposed ? j * ldb : j), ldb, transposed, k, least(panel, cols - j), panel,
              to + j * k);
}
// Address of element (k, j) of b.
inline const float* panelAt(const Gemm& g, std::int64_t k, std::int64_t j) {
  return g.b + (g.transposed ? j * g.ldb + k : k * g.ldb + j);
}

// Splits n items as evenly as possible into `parts`: start of part i.
struct Cuts {
  std::int64_t parts, each, more;
  Cuts(std::int64_t n, std::int64_t least) : parts(least), each(n / least), more(n % least) {}
  std::int64_t operator[](std::int64_t i) const { return i * each + cpu::least(i, more); }
};
// Number of parts of at most `most` items in n; at least one.
inline std::int64_t partsOf(std::int64_t n, std::int64_t most) {
  return n > most ? (n + most - 1) / most : 1;
}

// Packs adjacent rows: chunks [first, end), one after another, with kTileRows elements per k;
// writes up to kPackSlack beyond each.
constexpr std::int64_t kTileRows = kRows[kPackedVectors];
inline std::int64_t chunkStride(std::int64_t k) { return kTileRows * k + kPackSlack; }
static_assert(kTileRows <= kPackSlack && kWidth <= kPackSlack);

void packChunks(const float* a, std::int64_t ld, std::int64_t k, const Cuts& chunks,
                std::int64_t first, std::int64_t end, float* to) {
  const std::int64_t stride = chunkStride(k), bottom = chunks[end];
  // Copies a whole k at once: what spills over a chunk's k is overwritten by its next one.
  for (std::int64_t i = 0; i < k; ++i, a += ld, to += kTileRows) {
    std::int64_t row = chunks[first], chunk = first;
    float* line = to;
    for (std::int64_t r = row; r < bottom; r += 16) __builtin_prefetch(a + kAhead * ld + r);
    if constexpr (kTileRows <= kWidth)
      for (; chunk < end && row + kWidth <= bottom; ++chunk, line += stride) {
        store(line, load(a + row));
        row += chunks.each + (chunk < chunks.more);
      }
    for (; chunk < end; ++chunk, line += stride) {
      const std::int64_t last = chunks[chunk + 1];
      for (std::int64_t j = 0; row < last; row += kWidth, j += kWidth)
        store(line + j, loadPart(a + row, least(kWidth, bottom - row)));
      row = last;
    }
  }
}

// Loops over blocks of k, within them over panels of columns that fit the second-level cache, and
// within these over rows. Rows along k are read in place, unless enough panels need them to make
// packing worthwhile. Across k, every element of a row is in a separate cache line; blocks are then
// shorter, so that the lines survive until the next rows need them.
constexpr std::int64_t kAcrossDepth = 192, kCopiedPanels = 9;
void gemmBlocks(const Gemm& g) {
  Packs& packs = packsOfThread();
  const bool along = g.kStride == 1;
  const int vectors = g.cols <= kWidth ? 1 : kRows[4] > 0 && along && g.cols == 4 * kWidth ? 4 : 2;
  const std::int64_t panel = vectors * kWidth, panels = partsOf(g.cols, panel);
  const Cuts chunks(g.rows, partsOf(g.rows, kRows[vectors]));
  const Cuts blocks(g.k, partsOf(g.k, along ? kPackDepth : kAcrossDepth));
  const Cuts wide(panels, partsOf(panels, kPackColumns / panel));
  const Cuts high(chunks.parts, partsOf(chunks.parts, kPackRows / kRows[vectors]));
  const bool copied = !along && vectors == 2 && panels >= kCopiedPanels;
  const bool direct = !g.transposed && g.cols == panel;  // b is already a single panel
  const auto* tiles = along ? kAlongTiles : kAcrossTiles;
  float start[4 * kWidth];
  for (std::int64_t block = 0; block < blocks.parts; ++block) {
    const std::int64_t k0 = blocks[block], k = blocks[block + 1] - k0;
    const bool accumulate = g.accumulate || k0 > 0, begins = g.bias != nullptr && !accumulate;
    for (std::int64_t w = 0; w < wide.parts; ++w) {
      const std::int64_t firstPanel = wide[w], endPanel = wide[w + 1];
      if (!direct)
        packPanels(panelAt(g, k0, firstPanel * panel), g.ldb, g.transposed, k,
                   least(g.cols, endPanel * panel) - firstPanel * panel, panel, packs.b);
      for (std::int64_t h = 0; h < high.parts; ++h) {
        const std::int64_t firstChunk = high[h], endChunk = high[h + 1];
        const float* a = g.a + k0 * g.kStride;
        if (copied) packChunks(a, g.kStride, k, chunks, firstChunk, endChunk, packs.a);
        for (std::int64_t p = firstPanel; p < endPanel; ++p) {
          const std::int64_t j0 = p * panel, width = least(panel, g.cols - j0),
                             used = partsOf(width, kWidth);
          for (std::int64_t j = 0; j < panel; ++j)
            start[j] = begins && j < width ? g.bias[j0 + j] : 0;
          Tile t{k,
                 nullptr,
                 copied  ? kTileRows
                 : along ? g.rowStride
                         : g.kStride,
                 nullptr,
                 nullptr,
                 direct ? g.b + k0 * g.ldb : packs.b + (p - firstPanel) * k * panel,
                 direct ? g.ldb : panel,
                 nullptr,
                 g.ldc,
                 start,
                 accumulate,
                 g.relu && k0 + k == g.k,
                 width - (used - 1) * kWidth};
          for (std::int64_t chunk = firstChunk; chunk < endChunk; ++chunk) {
            const std::int64_t from = chunks[chunk];
            t.a = copied ? packs.a + (chunk - firstChunk) * chunkStride(k) : a + from * g.rowStride;
            t.c = g.c + from * g.ldc + j0;
            if (along && p == firstPanel &&
                chunk + 1 < chunks.parts)  // prefetch rows not read so far
              for (std::int64_t r = chunks[chunk + 1]; r < chunks[chunk + 2]; ++r)
                for (std::int64_t j = 0; j < k; j += 16)
                  __builtin_prefetch(a + r * g.rowStride + j);
            tiles[used][chunks[chunk + 1] - from](t);
          }
        }
      }
    }
  }
}

// Largest k of one panel with rows read in place: it stays in the first-level cache. Where k
// strides through `a`, every element of a row is in a separate cache line, perhaps in a separate
// page.
constexpr std::int64_t kBlock = 256, kStridedBlock = 128;
static_assert(kBlock * 4 * kWidth <= kPackDepth * kPackColumns);

// Panel by panel, with rows read in place.
void gemmPanels(const Gemm& g) {
  const int vectors = g.cols <= kWidth ? 1 : kRows[4] > 0 && g.cols == 4 * kWidth ? 4 : 2;
  const std::int64_t panel = vectors * kWidth;
  const Cuts chunks(g.rows, partsOf(g.rows, kRows[vectors]));
  // A row of exactly one panel needs no packing.
  const bool direct = !g.transposed && g.cols == panel;
  float* const packed = packsOfThread().b;
  float start[4 * kWidth];
  const bool strided = g.k > 1 && g.kOffset[1] - g.kOffset[0] > kWidth;
  const std::int64_t most = strided ? kStridedBlock : kBlock;
  const Cuts blocks(g.k, partsOf(g.k, most));
  for (std::int64_t block = 0; block < blocks.parts; ++block) {
    const std::int64_t k0 = blocks[block], k = blocks[block + 1] - k0;
    const bool accumulate = g.accumulate || k0 > 0, begins = g.bias != nullptr && !accumulate;
    for (std::int64_t j0 = 0; j0 < g.cols; j0 += panel) {
      const std::int64_t width = least(panel, g.cols - j0);
      const int used = static_cast<int>((width + kWidth - 1) / kWidth);
      if (!direct) packPanel(panelAt(g, k0, j0), g.ldb, g.transposed, k, width, panel, packed);
      for (std::int64_t j = 0; j < panel; ++j) start[j] = begins && j < width ? g.bias[j0 + j] : 0;
      Tile t{k,
             g.a,
             0,
             nullptr,
             g.kOffset + k0,
             direct ? g.b + k0 * g.ldb : packed,
             direct ? g.ldb : panel,
             nullptr,
             g.ldc,
             start,
             accumulate,
             g.relu && k0 + k == g.k,
             width - (used - 1) * kWidth};
      // Rows are split evenly, so that no tile is too small to keep the units busy.
      for (std::int64_t chunk = 0; chunk < chunks.parts; ++chunk) {
        const std::int64_t from = chunks[chunk];
        t.rowOffset = g.rowOffset + from;
        t.c = g.c + from * g.ldc + j0;
        kTiles[used][chunks[chunk + 1] - from](t);
      }
    }
  }
}

void gemm(const Gemm& g) {
  if (g.rows == 0) return;
  g.rowOffset == nullptr ? gemmBlocks(g) : gemmPanels(g);
}

}  // namespace
}  // namespace lockstep::backends::cpu
