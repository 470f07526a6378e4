// The bodies of the kernels, compiled by each kernels_<isa>.cc with that instruction set's flags.
// Everything has internal linkage and no library header with inline code is included: a function
// compiled for AVX-512 must never be the linker's choice for a machine without it.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "engine/backends/cpu/compression_body.h"
#include "engine/backends/cpu/kernels.h"

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
inline Vec larger(Vec a, Vec b) { return a > b ? a : b; }
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
// The first `n` lanes, 0 < n <= kWidth; the others read as 0 and are not written.
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

// f(i, lanes) over n elements in vectors.
template <typename F>
[[gnu::always_inline]] inline void forVectors(std::int64_t n, F f) {
  std::int64_t i = 0;
  for (; i + kWidth <= n; i += kWidth) f(i, std::int64_t{kWidth});
  if (i < n) f(i, n - i);
}

// ---- GEMM ----------------------------------------------------------------------------------
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

// ---- pooling -------------------------------------------------------------------------------

// kSize 0: the window is s.size.
template <int kSize>
void maxPoolAs(const Pool& s, const float* x, float* y) {
  const std::int64_t size = kSize > 0 ? kSize : s.size;
  for (std::int64_t b = 0; b < s.b; ++b)
    for (std::int64_t oy = 0; oy < s.oh; ++oy)
      for (std::int64_t ox = 0; ox < s.ow; ++ox, y += s.c) {
        const float* corner = x + ((b * s.h + oy * s.stride) * s.w + ox * s.stride) * s.c;
        forVectors(s.c, [=](std::int64_t c, std::int64_t n) {
          Vec top = loadPart(corner + c, n);
          for (std::int64_t ky = 0; ky < size; ++ky)
            for (std::int64_t kx = 0; kx < size; ++kx)
              top = larger(loadPart(corner + (ky * s.w + kx) * s.c + c, n), top);
          storePart(y + c, top, n);
        });
      }
}

template <int kSize, bool kOverlapping>
void maxPoolGradAs(const Pool& s, const float* x, const float* y, const float* dy, float* dx) {
  const std::int64_t size = kSize > 0 ? kSize : s.size;
  for (std::int64_t b = 0; b < s.b; ++b)
    for (std::int64_t oy = 0; oy < s.oh; ++oy)
      for (std::int64_t ox = 0; ox < s.ow; ++ox, y += s.c, dy += s.c) {
        const std::int64_t corner = ((b * s.h + oy * s.stride) * s.w + ox * s.stride) * s.c;
        forVectors(s.c, [=](std::int64_t c, std::int64_t n) {
          const Vec top = loadPart(y + c, n), given = loadPart(dy + c, n);
          Mask open = Mask{} - 1;  // lanes whose first maximum is still to come
          for (std::int64_t ky = 0; ky < size; ++ky)
            for (std::int64_t kx = 0; kx < size; ++kx) {
              const std::int64_t at = corner + (ky * s.w + kx) * s.c + c;
              const Mask hit = (loadPart(x + at, n) == top) & open;
              open &= ~hit;
              Vec grad = where(hit, given, Vec{});
              if constexpr (kOverlapping) grad += loadPart(dx + at, n);
              storePart(dx + at, grad, n);
            }
        });
      }
}

void maxPool(const Pool& s, const float* x, float* y) {
  s.size == 2 ? maxPoolAs<2>(s, x, y) : maxPoolAs<0>(s, x, y);
}

void maxPoolGrad(const Pool& s, const float* x, const float* y, const float* dy, float* dx) {
  const bool covered = s.stride == s.size && s.oh * s.stride == s.h && s.ow * s.stride == s.w;
  if (!covered)
    for (std::int64_t i = 0; i < s.b * s.h * s.w * s.c; ++i) dx[i] = 0;
  if (s.stride < s.size) maxPoolGradAs<0, true>(s, x, y, dy, dx);
  else if (s.size == 2) maxPoolGradAs<2, false>(s, x, y, dy, dx);
  else maxPoolGradAs<0, false>(s, x, y, dy, dx);
}

// ---- rows ----------------------------------------------------------------------------------

// Blocks of rows are summed first and the blocks' sums then: the error grows with the square root.
void reduceRows(std::int64_t rows, std::int64_t cols, std::int64_t stride, const float* x, float* y) {
  constexpr std::int64_t kRowsPerBlock = 256;
  for (std::int64_t c = 0; c < cols; c += 2 * kWidth) {
    const std::int64_t n0 = least(kWidth, cols - c);
    const std::int64_t n1 = least(kWidth, cols - c - n0);
    Vec total0{}, total1{};
    for (std::int64_t r0 = 0; r0 < rows; r0 += kRowsPerBlock) {
      const std::int64_t end = least(rows, r0 + kRowsPerBlock);
      Vec even0{}, even1{}, odd0{}, odd1{};
      std::int64_t r = r0;
      for (; r + 1 < end; r += 2) {
        const float* p = x + r * stride + c;
        even0 += loadPart(p, n0);
        odd0 += loadPart(p + stride, n0);
        if (n1 == 0) continue;
        even1 += loadPart(p + kWidth, n1);
        odd1 += loadPart(p + stride + kWidth, n1);
      }
      if (r < end) {
        const float* p = x + r * stride + c;
        even0 += loadPart(p, n0);
        if (n1 > 0) even1 += loadPart(p + kWidth, n1);
      }
      total0 += even0 + odd0;
      total1 += even1 + odd1;
    }
    storePart(y + c, total0, n0);
    if (n1 > 0) storePart(y + c + kWidth, total1, n1);
  }
}

void biasAdd(std::int64_t rows, std::int64_t cols, const float* x, const float* b, float* y) {
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < cols; c += kWidth) {
      const std::int64_t n = least(kWidth, cols - c);
      storePart(y + r * cols + c, loadPart(x + r * cols + c, n) + loadPart(b + c, n), n);
    }
}

// ---- elementwise ---------------------------------------------------------------------------

void relu(std::int64_t n, const float* x, float* y) {
  forVectors(n, [=](std::int64_t i, std::int64_t m) {
    storePart(y + i, larger(loadPart(x + i, m), Vec{}), m);
  });
}
void reluGrad(std::int64_t n, const float* dy, const float* y, float* dx) {
  forVectors(n, [=](std::int64_t i, std::int64_t m) {
    const Mask on = loadPart(y + i, m) > Vec{};
    storePart(dx + i, where(on, loadPart(dy + i, m), Vec{}), m);
  });
}
void tanhGrad(std::int64_t n, const float* dy, const float* y, float* dx) {
  forVectors(n, [=](std::int64_t i, std::int64_t m) {
    const Vec v = loadPart(y + i, m);
    storePart(dx + i, loadPart(dy + i, m) * (1.0f - v * v), m);
  });
}
void add(std::int64_t n, const float* a, const float* b, float* y) {
  forVectors(n, [=](std::int64_t i, std::int64_t m) {
    storePart(y + i, loadPart(a + i, m) + loadPart(b + i, m), m);
  });
}
void scale(std::int64_t n, const float* x, float factor, float* y) {
  forVectors(n, [=](std::int64_t i, std::int64_t m) {
    storePart(y + i, loadPart(x + i, m) * factor, m);
  });
}
void castU8(std::int64_t n, const std::uint8_t* x, float factor, float* y) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i)
    y[i] = static_cast<float>(static_cast<std::int32_t>(x[i])) * factor;
}

// ---- transcendental ------------------------------------------------------------------------

inline Vec smaller(Vec a, Vec b) { return a < b ? a : b; }
inline float total(Vec v) {
  float sum = 0;
  for (int i = 0; i < kWidth; ++i) sum += v[i];
  return sum;
}
// The first n lanes, `rest` in the others.
inline Vec loadOr(const float* p, std::int64_t n, float rest) {
  Vec v = loadPart(p, n);
  for (std::int64_t i = n; i < kWidth; ++i) v[i] = rest;
  return v;
}

// x = n·ln 2 + r with ln 2 in two parts (Cody and Waite), a polynomial of r, times 2ⁿ; the
// coefficients are those of Cephes' expf.
inline Vec exponential(Vec x) {
  x = smaller(larger(x, splat(-87.0f)), splat(88.0f));
  constexpr float kRound = 12582912.0f;  // 1.5·2²³: what is added to it is rounded to a whole number
  const Vec n = (x * 1.44269504f + kRound) - kRound;
  const Vec r = x - n * 0.693359375f + n * 2.12194440e-4f;
  Vec p = r * 1.9875691500e-4f + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  const Vec y = p * r * r + r + 1.0f;
  const Mask power = (__builtin_convertvector(n, Mask) + 127) << 23;
  return y * reinterpret_cast<const Vec&>(power);
}
// 1 / (1 + e^-x)
inline Vec logistic(Vec x) { return 1.0f / (1.0f + exponential(-x)); }

// The tanh form, ½x(1 + tanh u) = x·logistic(2u), u = √(2/π)(x + 0.044715x³).
constexpr float kGeluScale = 2 * 0.797884561f, kGeluCubic = 0.044715f * kGeluScale;

void gelu(std::int64_t n, const float* x, float* y) {
  forVectors(n, [=](std::int64_t i, std::int64_t lanes) {
    const Vec v = loadPart(x + i, lanes);
    storePart(y + i, v * logistic(v * (kGeluScale + kGeluCubic * (v * v))), lanes);
  });
}
void geluGrad(std::int64_t n, const float* dy, const float* x, float* dx) {
  forVectors(n, [=](std::int64_t i, std::int64_t lanes) {
    const Vec v = loadPart(x + i, lanes), square = v * v;
    const Vec s = logistic(v * (kGeluScale + kGeluCubic * square));
    const Vec slope = s * (1.0f + v * (1.0f - s) * (kGeluScale + 3.0f * kGeluCubic * square));
    storePart(dx + i, loadPart(dy + i, lanes) * slope, lanes);
  });
}

float largest(std::int64_t n, const float* x) {
  Vec top = splat(x[0]);
  forVectors(n, [&](std::int64_t i, std::int64_t lanes) { top = larger(top, loadOr(x + i, lanes, x[0])); });
  float most = top[0];
  for (int i = 1; i < kWidth; ++i) most = top[i] > most ? top[i] : most;
  return most;
}
float expRow(std::int64_t n, const float* x, float scale, float top, float* y) {
  Vec sum{};
  float rest = 0;
  forVectors(n, [&](std::int64_t i, std::int64_t lanes) {
    const Vec e = exponential(loadPart(x + i, lanes) * scale - top);
    storePart(y + i, e, lanes);
    if (lanes == kWidth) sum += e;
    else for (std::int64_t l = 0; l < lanes; ++l) rest += e[l];
  });
  return total(sum) + rest;
}

// ---- losses and sums -----------------------------------------------------------------------

double softmaxXent(std::int64_t rows, std::int64_t k, const float* logits, const std::int32_t* label,
                   const float* w, float* probs) {
  double loss = 0;
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* x = logits + r * k;
    float* p = probs + r * k;
    const float top = largest(k, x), sum = expRow(k, x, 1, top, p);
    loss += static_cast<double>(w[r] * (__builtin_logf(sum) + top - x[label[r]]));
    scale(k, p, 1 / sum, p);
  }
  return loss;
}
void softmaxXentGrad(std::int64_t rows, std::int64_t k, const float* probs, const std::int32_t* label,
                     const float* w, float dloss, float* dx) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const float factor = w[r] * dloss, right = probs[r * k + label[r]];
    scale(k, probs + r * k, factor, dx + r * k);
    dx[r * k + label[r]] = (right - 1) * factor;
  }
}

// Blocks are summed in f32, their sums in f64.
double sumSquares(std::int64_t n, const float* x) {
  constexpr std::int64_t kInBlock = 4096;
  double sum = 0;
  for (std::int64_t first = 0; first < n; first += kInBlock) {
    const std::int64_t end = least(n, first + kInBlock);
    Vec s0{}, s1{}, s2{}, s3{};
    std::int64_t i = first;
    for (; i + 4 * kWidth <= end; i += 4 * kWidth) {
      const Vec a = load(x + i), b = load(x + i + kWidth), c = load(x + i + 2 * kWidth), d = load(x + i + 3 * kWidth);
      s0 += a * a, s1 += b * b, s2 += c * c, s3 += d * d;
    }
    forVectors(end - i, [&](std::int64_t j, std::int64_t lanes) {
      const Vec v = loadPart(x + i + j, lanes);
      s0 += v * v;
    });
    sum += static_cast<double>(total((s0 + s1) + (s2 + s3)));
  }
  return sum;
}

// ---- layer norm ----------------------------------------------------------------------------

void layerNorm(const LayerNorm& o) {
  const LayerNorm a = o;
  const auto count = static_cast<float>(a.channels);
  for (std::int64_t r = 0; r < a.rows; ++r) {
    const float* x = a.x + r * a.channels;
    float* y = a.y + r * a.channels;
    Vec sum{}, squares{};
    forVectors(a.channels, [&](std::int64_t i, std::int64_t n) { sum += loadPart(x + i, n); });
    const float mean = total(sum) / count;
    forVectors(a.channels, [&](std::int64_t i, std::int64_t n) {
      const Vec d = loadOr(x + i, n, mean) - mean;
      squares += d * d;
    });
    const float rstd = 1 / __builtin_sqrtf(total(squares) / count + a.epsilon);
    forVectors(a.channels, [&](std::int64_t i, std::int64_t n) {
      storePart(y + i, (loadPart(x + i, n) - mean) * rstd * loadPart(a.gain + i, n) +
                           loadPart(a.bias + i, n), n);
    });
    a.mean[r] = mean;
    a.rstd[r] = rstd;
  }
}

void layerNormGrad(const LayerNorm& o) {
  const LayerNorm a = o;
  const auto count = static_cast<float>(a.channels);
  for (std::int64_t r = 0; r < a.rows; ++r) {
    const float *x = a.x + r * a.channels, *dy = a.dy + r * a.channels;
    float* dx = a.dx + r * a.channels;
    const float mean = a.mean[r], rstd = a.rstd[r];
    Vec sum{}, product{};
    forVectors(a.channels, [&](std::int64_t i, std::int64_t n) {
      const Vec g = loadPart(dy + i, n) * loadPart(a.gain + i, n);
      sum += g;
      product += g * (loadPart(x + i, n) - mean) * rstd;
    });
    const float shift = total(sum) / count, slope = total(product) / count;
    forVectors(a.channels, [&](std::int64_t i, std::int64_t n) {
      const Vec g = loadPart(dy + i, n) * loadPart(a.gain + i, n);
      const Vec normal = (loadPart(x + i, n) - mean) * rstd;
      storePart(dx + i, rstd * (g - shift - normal * slope), n);
    });
  }
}

// V vectors of channels from i on, the last of `lanes`.
template <int V>
[[gnu::always_inline]] inline void layerNormWeightsOf(const LayerNorm& a, std::int64_t i, std::int64_t lanes) {
  Vec gain[V], bias[V];
  for (int j = 0; j < V; ++j) gain[j] = bias[j] = Vec{};
  for (std::int64_t r = 0; r < a.rows; ++r) {
    const float *dy = a.dy + r * a.stride + i, *x = a.x + r * a.stride + i;
    const float mean = a.mean[r], rstd = a.rstd[r];
#pragma GCC unroll 4
    for (int j = 0; j < V; ++j) {
      const std::int64_t n = j + 1 < V ? kWidth : lanes;
      const Vec g = loadPart(dy + j * kWidth, n);
      gain[j] += g * (loadPart(x + j * kWidth, n) - mean) * rstd;
      bias[j] += g;
    }
  }
  for (int j = 0; j < V; ++j) {
    const std::int64_t n = j + 1 < V ? kWidth : lanes;
    storePart(a.dgain + i + j * kWidth, gain[j], n);
    storePart(a.dbias + i + j * kWidth, bias[j], n);
  }
}
void layerNormWeights(const LayerNorm& o) {
  const LayerNorm a = o;
  std::int64_t i = 0;
  for (; i + 4 * kWidth <= a.channels; i += 4 * kWidth) layerNormWeightsOf<4>(a, i, kWidth);
  for (; i < a.channels; i += kWidth) layerNormWeightsOf<1>(a, i, least(kWidth, a.channels - i));
}

// ---- batch norm ----------------------------------------------------------------------------

// Adds f(row, first, second) up over the rows of each sample, one vector of channels at a time. A
// sample's rows are summed first, then the samples' sums; odd and even rows apart, so that additions
// do not wait for each other.
template <typename F>
[[gnu::always_inline]] inline void sumSamples(const BatchNorm& a, F f) {
  forVectors(a.channels, [&](std::int64_t c, std::int64_t n) {
    Vec first{}, second{};
    for (std::int64_t s = 0; s < a.samples; ++s) {
      const std::int64_t begin = s * a.pixels;
      Vec first0{}, first1{}, second0{}, second1{};
      std::int64_t p = 0;
      for (; p + 1 < a.pixels; p += 2) {
        f((begin + p) * a.stride + c, c, n, first0, second0);
        f((begin + p + 1) * a.stride + c, c, n, first1, second1);
      }
      if (p < a.pixels) f((begin + p) * a.stride + c, c, n, first0, second0);
      const float w = a.w ? a.w[s] : 1.0f;
      first += w * (first0 + first1);
      second += w * (second0 + second1);
    }
    storePart(a.first + c, first, n);
    storePart(a.second + c, second, n);
  });
}

void batchMoments(const BatchNorm& o) {
  const BatchNorm a = o;
  sumSamples(a, [&](std::int64_t i, std::int64_t c, std::int64_t n, Vec& first, Vec& second) {
    const Vec d = loadPart(a.x + i, n) - loadPart(a.mean + c, n);
    first += d;
    second += d * d;
  });
}
void batchNormSums(const BatchNorm& o) {
  const BatchNorm a = o;
  sumSamples(a, [&](std::int64_t i, std::int64_t c, std::int64_t n, Vec& first, Vec& second) {
    const Vec dy = loadPart(a.dy + i, n);
    first += dy * (loadPart(a.x + i, n) - loadPart(a.mean + c, n));
    second += dy;
  });
}
void batchNorm(const BatchNorm& o) {
  const BatchNorm a = o;
  for (std::int64_t row = 0; row < a.samples * a.pixels; ++row) {
    const float* x = a.x + row * a.channels;
    float* y = a.y + row * a.channels;
    forVectors(a.channels, [&](std::int64_t c, std::int64_t n) {
      const Vec d = loadPart(x + c, n) - loadPart(a.mean + c, n);
      storePart(y + c, d * loadPart(a.scale + c, n) + loadPart(a.offset + c, n), n);
    });
  }
}
void batchNormGrad(const BatchNorm& o) {
  const BatchNorm a = o;
  for (std::int64_t s = 0; s < a.samples; ++s) {
    const float w = a.w[s];
    for (std::int64_t row = s * a.pixels; row < (s + 1) * a.pixels; ++row) {
      const float *x = a.x + row * a.channels, *dy = a.dy + row * a.channels;
      float* y = a.y + row * a.channels;
      forVectors(a.channels, [&](std::int64_t c, std::int64_t n) {
        const Vec d = loadPart(x + c, n) - loadPart(a.mean + c, n);
        const Vec through = loadPart(a.offset + c, n) + d * loadPart(a.slope + c, n);
        storePart(y + c, loadPart(dy + c, n) * loadPart(a.scale + c, n) + w * through, n);
      });
    }
  }
}

void meanPool(std::int64_t samples, std::int64_t pixels, std::int64_t channels, const float* x,
              float* y) {
  const float scale = 1.0f / static_cast<float>(pixels);
  for (std::int64_t s = 0; s < samples; ++s, x += pixels * channels, y += channels)
    forVectors(channels, [=](std::int64_t c, std::int64_t n) {
      Vec sum{};
      for (std::int64_t p = 0; p < pixels; ++p) sum += loadPart(x + p * channels + c, n);
      storePart(y + c, sum * scale, n);
    });
}
void meanPoolGrad(std::int64_t samples, std::int64_t pixels, std::int64_t channels, const float* dy,
                  float* dx) {
  const float scale = 1.0f / static_cast<float>(pixels);
  for (std::int64_t s = 0; s < samples; ++s, dx += pixels * channels, dy += channels)
    for (std::int64_t p = 0; p < pixels; ++p)
      forVectors(channels, [=](std::int64_t c, std::int64_t n) {
        storePart(dx + p * channels + c, loadPart(dy + c, n) * scale, n);
      });
}

// ---- optimizers ----------------------------------------------------------------------------

void adam(const Adam& o) {
  const Adam a = o;
  const float rest1 = 1 - a.beta1, rest2 = 1 - a.beta2;
  forVectors(a.n, [=](std::int64_t i, std::int64_t n) {
    const Vec g = loadPart(a.g + i, n) * a.scale;
    const Vec m = loadPart(a.m + i, n) * a.beta1 + g * rest1;
    const Vec v = loadPart(a.v + i, n) * a.beta2 + g * g * rest2;
    const Vec p = loadPart(a.p + i, n) * a.keep - m * a.rate / (squareRoot(v) + a.epsilon);
    storePart(a.mOut + i, m, n);
    storePart(a.vOut + i, v, n);
    storePart(a.pOut + i, p, n);
  });
}

void sgd(const Sgd& o) {
  const Sgd a = o;
  forVectors(a.n, [=](std::int64_t i, std::int64_t n) {
    const Vec p = loadPart(a.p + i, n);
    const Vec v = loadPart(a.v + i, n) * a.momentum + loadPart(a.g + i, n) * a.scale + p * a.decay;
    storePart(a.vOut + i, v, n);
    storePart(a.pOut + i, p - v * a.lr, n);
  });
}

// Where the gradient is 0 nothing moves, epsilon 0 or not.
void adagrad(const Adagrad& o) {
  const Adagrad a = o;
  forVectors(a.n, [=](std::int64_t i, std::int64_t n) {
    const Vec p = loadPart(a.p + i, n);
    const Vec g = loadPart(a.g + i, n) * a.scale + p * a.decay;
    const Vec s = loadPart(a.s + i, n) + g * g;
    const Vec moved = where(g != Vec{}, g * a.lr / (squareRoot(s) + a.epsilon), Vec{});
    storePart(a.sOut + i, s, n);
    storePart(a.pOut + i, p - moved, n);
  });
}

}  // namespace
}  // namespace lockstep::backends::cpu

#include "engine/backends/cpu/attention_body.h"

namespace lockstep::backends::cpu {
namespace {

constexpr Kernels kernels(const char* isa) {
  return {.isa = isa, .gemm = gemm, .maxPool = maxPool, .maxPoolGrad = maxPoolGrad,
          .reduceRows = reduceRows, .biasAdd = biasAdd, .relu = relu, .reluGrad = reluGrad,
          .tanhGrad = tanhGrad, .add = add, .scale = scale, .gelu = gelu, .geluGrad = geluGrad,
          .softmaxXent = softmaxXent, .softmaxXentGrad = softmaxXentGrad, .sumSquares = sumSquares,
          .attention = attention, .attentionGrad = attentionGrad,
          .layerNorm = layerNorm, .layerNormGrad = layerNormGrad,
          .layerNormWeights = layerNormWeights, .batchMoments = batchMoments,
          .batchNorm = batchNorm, .batchNormSums = batchNormSums, .batchNormGrad = batchNormGrad,
          .meanPool = meanPool, .meanPoolGrad = meanPoolGrad, .castU8 = castU8,
          .encode = {encodeFp16, encodeBf16, encodeInt8},
          .decode = {decodeFp16, decodeBf16, decodeInt8}, .subtract = subtract, .adam = adam,
          .sgd = sgd, .adagrad = adagrad};
}

}  // namespace
}  // namespace lockstep::backends::cpu
