// Matmul of bf16 operands on the tiles of processors that have AMX: an instruction multiplies 16
// rows of 32 numbers with 16 columns and adds to 16 × 16 sums in f32 (Intel, Instruction Set
// Extensions Programming Reference, chapter 3).
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>

#include "engine/backends/cpu/kernels.h"

namespace lockstep::backends::cpu {
namespace {

// A tile of `a` is 16 rows of 32 numbers, of `b` 16 rows of pairs of k, each of 16 columns. Blocks
// are 2 × 2 tiles that stay in registers over kDepth of k; what comes after is added to what is
// stored, with the same bits. An element's bits depend on neither the rows nor the columns beside
// it.
constexpr std::int64_t kTile = 16, kPairs = 16, kBlock = 2 * kTile, kTileDepth = 2 * kPairs;
constexpr std::int64_t kDepth = kTilesDepth, kColumns = kTilesColumns;
constexpr std::int64_t kTileWords = kTile * kPairs;  // of 32 bits
static_assert(kDepth % kTileDepth == 0 && kColumns % kBlock == 0);

struct alignas(64) TileShapes {
  std::uint8_t palette = 1, start = 0, reserved[14] = {};
  std::uint16_t rowBytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

inline std::int64_t least(std::int64_t a, std::int64_t b) { return a < b ? a : b; }
inline std::int64_t tilesOf(std::int64_t depth) { return (depth + kTileDepth - 1) / kTileDepth; }
inline __mmask32 first(std::int64_t n) {
  return n >= 32 ? ~__mmask32{0} : n <= 0 ? 0 : (__mmask32{1} << n) - 1;
}

// Rows and columns change places.
inline void transpose(__m512i (&row)[16]) {
  __m512i t[16];
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_epi32(row[i], row[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(row[i], row[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {
    row[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    row[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    row[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    row[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
  for (int i = 0; i < 16; i += 8)
    for (int j = 0; j < 4; ++j) {
      t[i + j] = _mm512_shuffle_i32x4(row[i + j], row[i + j + 4], 0x88);
      t[i + j + 4] = _mm512_shuffle_i32x4(row[i + j], row[i + j + 4], 0xdd);
    }
  for (int j = 0; j < 8; ++j) {
    row[j] = _mm512_shuffle_i32x4(t[j], t[j + 8], 0x88);
    row[j + 8] = _mm512_shuffle_i32x4(t[j], t[j + 8], 0xdd);
  }
}

// lines[l] = 32 numbers in a row from `from` + l·stride, zeros beyond `lines` and `length`.
inline void loadLines(const std::uint16_t* from, std::int64_t stride, std::int64_t lines,
                      std::int64_t length, __m512i (&out)[16]) {
  const __mmask32 mask = first(length);
  for (int l = 0; l < 16; ++l)
    out[l] = l < lines ? _mm512_maskz_loadu_epi16(mask, from + l * stride) : _mm512_setzero_si512();
}

// pairs[p] = the numbers of lines 2p and 2p + 1 beside each other, 16 of each, zeros beyond `lines`
// and `length`.
inline void loadPairs(const std::uint16_t* from, std::int64_t stride, std::int64_t lines,
                      std::int64_t length, __m512i (&out)[16]) {
  const auto mask = static_cast<__mmask16>(first(least(length, 16)));
  const auto line = [&](std::int64_t l) {
    return _mm512_cvtepu16_epi32(l < lines ? _mm256_maskz_loadu_epi16(mask, from + l * stride)
                                           : _mm256_setzero_si256());
  };
  for (int p = 0; p < 16; ++p)
    out[p] = _mm512_or_si512(line(2 * p), _mm512_slli_epi32(line(2 * p + 1), 16));
}

inline void storeTile(const __m512i (&row)[16], std::uint32_t* to) {
  for (int i = 0; i < 16; ++i) _mm512_store_si512(to + i * kPairs, row[i]);
}

// Tiles of `rows` ≤ 16 rows, one for each 32 of k.
void packRows(const std::uint16_t* a, std::int64_t aRow, std::int64_t aK, std::int64_t rows,
              std::int64_t depth, std::uint32_t* to) {
  __m512i tile[16];
  for (std::int64_t k = 0; k < depth; k += kTileDepth, to += kTileWords) {
    if (aK == 1) {
      loadLines(a + k, aRow, rows, depth - k, tile);
    } else {
      loadPairs(a + k * aK, aK, depth - k, rows, tile);
      transpose(tile);
    }
    storeTile(tile, to);
  }
}

void packColumns(const std::uint16_t* b, std::int64_t bK, std::int64_t bColumn,
                 std::int64_t columns, std::int64_t depth, std::uint32_t* to) {
  __m512i tile[16];
  for (std::int64_t k = 0; k < depth; k += kTileDepth, to += kTileWords) {
    if (bColumn == 1) {
      loadPairs(b + k * bK, bK, depth - k, columns, tile);
    } else {
      loadLines(b + k, bColumn, columns, depth - k, tile);
      transpose(tile);
    }
    storeTile(tile, to);
  }
}

// A block of the result, `rows` × `columns` of it.
struct Block {
  std::int64_t tiles;  // of k
  const std::uint32_t *a[2], *b[2];
  float* c;
  std::int64_t ldc, rows, columns;
  const float* bias;
  bool accumulate, relu;
};

// What is written before it is in memory after it: loads of tiles do not say what they read.
inline void settle() { asm volatile("" ::: "memory"); }

void multiply(const Block& o) {
  constexpr int kPitch = kBlock * sizeof(float);
  alignas(64) float sums[kBlock * kBlock];
  const bool whole = o.rows == kBlock && o.columns == kBlock;
  float* const c = whole ? o.c : sums;
  const std::int64_t ldc = whole ? o.ldc : kBlock,
                     pitch = ldc * static_cast<std::int64_t>(sizeof(float));
  if (o.accumulate) {
    if (!whole)
      for (std::int64_t i = 0; i < o.rows; ++i)
        std::memcpy(sums + i * kBlock, o.c + i * o.ldc,
                    static_cast<std::size_t>(o.columns) * sizeof(float));
    settle();
    _tile_loadd(0, c, pitch);
    _tile_loadd(1, c + kTile, pitch);
    _tile_loadd(2, c + kTile * ldc, pitch);
    _tile_loadd(3, c + kTile * ldc + kTile, pitch);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  settle();
  const std::uint32_t *a0 = o.a[0], *a1 = o.a[1], *b0 = o.b[0], *b1 = o.b[1];
  for (std::int64_t t = 0; t < o.tiles; ++t) {
    _tile_loadd(4, a0 + t * kTileWords, 64);
    _tile_loadd(6, b0 + t * kTileWords, 64);
    _tile_loadd(5, a1 + t * kTileWords, 64);
    _tile_loadd(7, b1 + t * kTileWords, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  const bool plain = o.bias == nullptr && !o.relu;
  float* const to = whole && plain ? o.c : sums;
  const std::int64_t toPitch = whole && plain ? pitch : kPitch,
                     ldt = whole && plain ? o.ldc : kBlock;
  _tile_stored(0, to, toPitch);
  _tile_stored(1, to + kTile, toPitch);
  _tile_stored(2, to + kTile * ldt, toPitch);
  _tile_stored(3, to + kTile * ldt + kTile, toPitch);
  settle();
  if (to == o.c) return;
  for (std::int64_t j = 0; j < o.columns; j += kTile) {
    const auto mask = static_cast<__mmask16>(first(least(o.columns - j, kTile)));
    const __m512 bias =
        o.bias != nullptr ? _mm512_maskz_loadu_ps(mask, o.bias + j) : _mm512_setzero_ps();
    for (std::int64_t i = 0; i < o.rows; ++i) {
      __m512 v = _mm512_load_ps(sums + i * kBlock + j);
      if (o.bias != nullptr) v = _mm512_add_ps(v, bias);
      if (o.relu) v = _mm512_max_ps(_mm512_setzero_ps(), v);  // the second where one is NaN
      _mm512_mask_storeu_ps(o.c + i * o.ldc + j, mask, v);
    }
  }
}

}  // namespace

bool allowTiles() {
  constexpr int kRequest = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return false;
  constexpr unsigned kBf16 = 1u << 22, kTiles = 1u << 24;
  return (edx & kBf16) != 0 && (edx & kTiles) != 0 &&
         syscall(SYS_arch_prctl, kRequest, kTileData) == 0;
}

void gemm16Tiles(const Gemm16& g) {
  constexpr TileShapes kShapes;
  PacksTiles& packs = packsTilesOfThread();
  _tile_loadconfig(&kShapes);
  for (std::int64_t k = 0; k == 0 || k < g.k; k += kDepth) {
    const std::int64_t depth = least(kDepth, g.k - k), tiles = tilesOf(depth),
                       words = tiles * kTileWords;
    for (std::int64_t column = 0; column < g.cols; column += kColumns) {
      const std::int64_t columns = least(kColumns, g.cols - column);
      for (std::int64_t j = 0; j < columns; j += kTile)
        packColumns(g.b + k * g.bK + (column + j) * g.bColumn, g.bK, g.bColumn,
                    least(kTile, columns - j), depth, packs.b + j / kTile * words);
      // The second tiles of the last block may be none of the matrix: those are what is there, and
      // their sums unused.
      for (std::int64_t row = 0; row < g.rows; row += kBlock) {
        const std::int64_t rows = least(kBlock, g.rows - row);
        for (std::int64_t i = 0; i < rows; i += kTile)
          packRows(g.a + (row + i) * g.aRow + k * g.aK, g.aRow, g.aK, least(kTile, rows - i), depth,
                   packs.a + i / kTile * words);
        const std::uint32_t* const a1 = rows > kTile ? packs.a + words : packs.a;
        for (std::int64_t j = 0; j < columns; j += kBlock) {
          const std::uint32_t* const b0 = packs.b + j / kTile * words;
          multiply({tiles,
                    {packs.a, a1},
                    {b0, columns - j > kTile ? b0 + words : b0},
                    g.c + (row * g.ldc + column + j),
                    g.ldc,
                    rows,
                    least(kBlock, columns - j),
                    g.bias == nullptr || k + depth < g.k ? nullptr : g.bias + column + j,
                    k > 0,
                    g.relu && k + depth >= g.k});
        }
      }
    }
  }
  _tile_release();
}

}  // namespace lockstep::backends::cpu
