// Attention on tensor cores (Dao: "FlashAttention-2", 2023) with operands cast to 16 bits
// beforehand. A warp has 16 or 32 rows, of queries or of keys, and iterates over tiles of the
// others, copying the next tile asynchronously while it multiplies the current one. Scores stay in
// registers: the accumulators of one multiplication have the layout of the left operand of the
// next. No sum has a nondeterministic order: gradients of queries and of keys have kernels of their
// own.
#include "engine/backends/cuda/fragments.h"

namespace lockstep::backends::cuda {
namespace {

constexpr int kTensorWarps = static_cast<int>(kTensorThreads / kWarp);

// Tile sizes of a kernel for heads of up to kHead_ channels: the number of keys (for the keys'
// gradient, queries) between two barriers. Tiles are double-buffered in 48 KiB of shared memory.
template <int kHead_, int kRows_, int kKeys_, int kQueries_>
struct TensorTiles {
  static constexpr int kHead = kHead_, kRows = kRows_, kKeys = kKeys_, kQueries = kQueries_;
  static constexpr int kSteps = kHead / kFragment;  // of a multiplication over channels
  // accumulators per row of channels
  static constexpr int kOut = kHead / 8;
  static constexpr int kBands = kRows / kTensorWarps / kFragment;  // bands of 16 rows per warp
  using Row = TileRow<kHead>;
  using Left = unsigned[kSteps][kBands][4];
  using Out = float[kBands][kOut][4];
};
using NarrowHeads = TensorTiles<kNarrowHead, kTensorRows, 64, 32>;
using WideHeads = TensorTiles<kLargestHead, kTensorRowsWide, 32, 16>;

// A warp's rows of one sample and head. With causal attention, blocks with more work come first.
struct Place {
  Index head, operands;  // index of the sample and head, and offset of its operands
  int tokens, first, warpFirst, warpEnd;  // the block's first row, and the warp's rows
};
template <typename T>
LOCKSTEP_DEVICE Place placeOf(const TensorAttentionArguments& a, bool lastFirst) {
  const Index tiles = (a.tokens + T::kRows - 1) / T::kRows, tile = blockIdx.x % tiles;
  Place at{};
  at.head = blockIdx.x / tiles;
  at.operands = at.head * a.tokens * T::kHead;
  at.tokens = static_cast<int>(a.tokens);
  at.first = static_cast<int>(lastFirst ? tiles - 1 - tile : tile) * T::kRows;
  at.warpFirst = at.first + warpOf() * T::kBands * kFragment;
  at.warpEnd = at.warpFirst + T::kBands * kFragment;
  return at;
}
// End of the keys visible to any query of the block.
template <typename T>
LOCKSTEP_DEVICE int tensorKeysEnd(const TensorAttentionArguments& a, const Place& at) {
  return a.causal && at.first + T::kRows < at.tokens ? at.first + T::kRows : at.tokens;
}

template <typename T>
LOCKSTEP_DEVICE void readRows(typename T::Left& to, const std::uint16_t* x, const Place& at) {
  LOCKSTEP_UNROLL
  for (int i = 0; i < T::kBands; ++i) {
    LOCKSTEP_UNROLL
    for (int c = 0; c < T::kSteps; ++c)
      readLeft<T::kHead>(to[c][i], x, at.warpFirst + i * kFragment, at.tokens, c * kFragment);
  }
}

// Masks scores of keys beyond the last and, if causal, of keys after the query. Rows are queries
// and columns keys from these indices on; with kKeysFirst the other way round.
template <bool kKeysFirst, int kBands, int kColumns>
LOCKSTEP_DEVICE void maskScores(float (&scores)[kBands][kColumns][4],
                                const TensorAttentionArguments& a, int firstRow, int firstColumn) {
  const int tokens = static_cast<int>(a.tokens);
  LOCKSTEP_UNROLL
  for (int i = 0; i < kBands; ++i) {
    LOCKSTEP_UNROLL
    for (int n = 0; n < kColumns; ++n) {
      LOCKSTEP_UNROLL
      for (int e = 0; e < 4; ++e) {
        const int row = firstRow + i * kFragment + rowOf(e),
                  column = firstColumn + n * 8 + columnOf(e);
        if (column >= tokens || (a.causal && (kKeysFirst ? row > column : column > row)))
          scores[i][n][e] = -INFINITY;
      }
    }
  }
}

// Writes a row of half `half` of a band, from element `at` of `out` on: factor·sums.
template <typename F, typename T>
LOCKSTEP_DEVICE void writeRow(const TensorAttentionArguments& a, Index at,
                              const float (&sums)[T::kOut][4], int half, float factor) {
  float* const wide = static_cast<float*>(a.out) + at;
  std::uint16_t* const narrow = static_cast<std::uint16_t*>(a.out) + at;
  LOCKSTEP_UNROLL
  for (int n = 0; n < T::kOut; ++n) {
    const int c = n * 8 + columnOf(0);
    const float first = factor * sums[n][2 * half], second = factor * sums[n][2 * half + 1];
    if (a.narrow) {
      const unsigned low = F::bits(first), high = F::bits(second);
      if (a.paired && c < a.head) {
        *reinterpret_cast<unsigned*>(narrow + c) = low | high << 16;
      } else {
        if (c < a.head) narrow[c] = static_cast<std::uint16_t>(low);
        if (c + 1 < a.head) narrow[c + 1] = static_cast<std::uint16_t>(high);
      }
    } else if (a.paired && c < a.head) {
      *reinterpret_cast<Two*>(wide + c) = {first, second};
    } else {
      if (c < a.head) wide[c] = first;
      if (c + 1 < a.head) wide[c + 1] = second;
    }
  }
}

// Adds left·b to accumulators 2·n and 2·n + 1 of each band.
template <typename F, int kBands, int kColumns>
LOCKSTEP_DEVICE void multiplyPair(float (&sums)[kBands][kColumns][4], int n,
                                  const unsigned (&left)[kBands][4], const unsigned (&b)[4]) {
  LOCKSTEP_UNROLL
  for (int i = 0; i < kBands; ++i) {
    F::multiply(sums[i][2 * n], left[i], b[0], b[1]);
    F::multiply(sums[i][2 * n + 1], left[i], b[2], b[3]);
  }
}

// Adds the products over channels of the warp's rows and those of a tile.
template <typename F, typename T, int kColumns>
LOCKSTEP_DEVICE void multiplyRows(float (&sums)[T::kBands][kColumns][4],
                                  const typename T::Left& left, const typename T::Row* rows) {
  LOCKSTEP_UNROLL
  for (int c = 0; c < T::kSteps; ++c) {
    LOCKSTEP_UNROLL
    for (int n = 0; n < kColumns / 2; ++n) {
      unsigned b[4];
      loadRightOfRows(b, rows + n * kFragment, c * kFragment);
      multiplyPair<F>(sums, n, left[c], b);
    }
  }
}

// Adds 16 rows of a tile to each of the warp's rows, with the weights `left`.
template <typename F, typename T>
LOCKSTEP_DEVICE void addRows(typename T::Out& sums, const unsigned (&left)[T::kBands][4],
                             const typename T::Row* rows) {
  LOCKSTEP_UNROLL
  for (int n = 0; n < T::kOut / 2; ++n) {
    unsigned b[4];
    loadRightOfColumns(b, rows, n * kFragment);
    multiplyPair<F>(sums, n, left, b);
  }
}

// Starts copying a tile of keys and values.
template <typename T>
LOCKSTEP_DEVICE void copyKeys(typename T::Row (&k)[T::kKeys], typename T::Row (&v)[T::kKeys],
                              const TensorAttentionArguments& a, const Place& at, int first) {
  copyRows(k, a.k + at.operands, first, at.tokens);
  copyRows(v, a.v + at.operands, first, at.tokens);
}

// Turns the scores of half a band with another tile into weights 2^(unit·(score − top)). `top`, the
// row's greatest score, then counts them, and so do its sum of weights and `out`.
template <typename T>
LOCKSTEP_DEVICE void weigh(float (&scores)[T::kKeys / 8][4], float& top, float& sum,
                           float (&out)[T::kOut][4], int half, float unit) {
  float most = scores[0][2 * half];
  LOCKSTEP_UNROLL
  for (int n = 0; n < T::kKeys / 8; ++n) {
    most = fmaxf(most, fmaxf(scores[n][2 * half], scores[n][2 * half + 1]));
  }
  // Every query sees the first key, so a row's maximum is finite from the first tile on if its
  // scores are.
  const float newTop = fmaxf(top, quarterMax(most)), kept = powerOfTwo(unit * (top - newTop));
  const float shift = unit * newTop;
  float added = 0;
  LOCKSTEP_UNROLL
  for (int n = 0; n < T::kKeys / 8; ++n) {
    LOCKSTEP_UNROLL
    for (int e = 2 * half; e < 2 * half + 2; ++e) {
      scores[n][e] = powerOfTwo(unit * scores[n][e] - shift);
      added += scores[n][e];
    }
  }
  top = newTop;
  sum = sum * kept + added;
  LOCKSTEP_UNROLL
  for (int n = 0; n < T::kOut; ++n) {
    out[n][2 * half] *= kept;
    out[n][2 * half + 1] *= kept;
  }
}

template <typename F, typename T>
LOCKSTEP_DEVICE void attendByTensors(const TensorAttentionArguments& a) {
  LOCKSTEP_SHARED typename T::Row k[2][T::kKeys], v[2][T::kKeys];
  const Place at = placeOf<T>(a, a.causal);
  const int keysEnd = tensorKeysEnd<T>(a, at);
  const float unit = a.scale * kLog2e;
  typename T::Left q;
  typename T::Out out = {};
  float top[T::kBands][2], sum[T::kBands][2] = {};
  LOCKSTEP_UNROLL
  for (int i = 0; i < T::kBands; ++i) top[i][0] = top[i][1] = -INFINITY;
  copyKeys<T>(k[0], v[0], a, at, 0);
  readRows<T>(q, a.q + at.operands, at);
  int stage = 0;
  for (int firstKey = 0; firstKey < keysEnd; firstKey += T::kKeys, stage ^= 1) {
    cpAsyncWait();
    __syncthreads();  // this tile is there, and the one before has been read
    if (firstKey + T::kKeys < keysEnd)
      copyKeys<T>(k[stage ^ 1], v[stage ^ 1], a, at, firstKey + T::kKeys);
    if (a.causal && firstKey >= at.warpEnd) continue;  // none of the warp's sees any
    float scores[T::kBands][T::kKeys / 8][4] = {};
    multiplyRows<F, T>(scores, q, k[stage]);
    if (firstKey + T::kKeys > at.tokens || (a.causal && firstKey + T::kKeys - 1 > at.warpFirst))
      maskScores<false>(scores, a, at.warpFirst, firstKey);
    LOCKSTEP_UNROLL
    for (int i = 0; i < T::kBands; ++i) {
      LOCKSTEP_UNROLL
      for (int half = 0; half < 2; ++half)
        weigh<T>(scores[i], top[i][half], sum[i][half], out[i], half, unit);
    }
    LOCKSTEP_UNROLL
    for (int key = 0; key < T::kKeys / kFragment; ++key) {
      unsigned p[T::kBands][4];
      LOCKSTEP_UNROLL
      for (int i = 0; i < T::kBands; ++i)
        packLeft<F>(p[i], scores[i][2 * key], scores[i][2 * key + 1]);
      addRows<F, T>(out, p, v[stage] + key * kFragment);
    }
  }
  const Index sample = at.head / a.heads, head = at.head % a.heads;
  LOCKSTEP_UNROLL
  for (int i = 0; i < T::kBands; ++i) {
    LOCKSTEP_UNROLL
    for (int half = 0; half < 2; ++half) {
      const float whole = quarterSum(sum[i][half]);
      const int query = at.warpFirst + i * kFragment + rowOf(2 * half);
      if (query >= at.tokens) continue;
      const Index row = (sample * a.tokens + query) * a.heads + head;
      writeRow<F, T>(a, row * a.head, out[i], half, 1 / whole);
      if (columnOf(0) == 0) a.lseOut[row] = a.scale * top[i][half] + logf(whole);
    }
  }
}

template <typename T>
LOCKSTEP_DEVICE void readTerms(RowTerms (&terms)[T::kBands][2], const TensorAttentionArguments& a,
                               const Place& at) {
  LOCKSTEP_UNROLL
  for (int i = 0; i < T::kBands; ++i) {
    LOCKSTEP_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int query = at.warpFirst + i * kFragment + rowOf(2 * half);
      terms[i][half] = query < at.tokens ? a.terms[at.head * a.tokens + query] : RowTerms{0, 0};
    }
  }
}

// dq of the block's queries, over all keys they see: ds = p·(dp − Σ dy·y), dq = scale·ds·k.
template <typename F, typename T>
LOCKSTEP_DEVICE void queryGradByTensors(const TensorAttentionArguments& a) {
  LOCKSTEP_SHARED typename T::Row k[2][T::kKeys], v[2][T::kKeys];
  const Place at = placeOf<T>(a, a.causal);
  const int keysEnd = tensorKeysEnd<T>(a, at);
  const float unit = a.scale * kLog2e;
  typename T::Left q, dy;
  typename T::Out dq = {};
  RowTerms terms[T::kBands][2];
  copyKeys<T>(k[0], v[0], a, at, 0);
  readRows<T>(q, a.q + at.operands, at);
  readRows<T>(dy, a.dy + at.operands, at);
  readTerms<T>(terms, a, at);
  int stage = 0;
  for (int firstKey = 0; firstKey < keysEnd; firstKey += T::kKeys, stage ^= 1) {
    cpAsyncWait();
    __syncthreads();  // this tile is there, and the one before has been read
    if (firstKey + T::kKeys < keysEnd)
      copyKeys<T>(k[stage ^ 1], v[stage ^ 1], a, at, firstKey + T::kKeys);
    LOCKSTEP_UNROLL
    for (int some = 0; some < T::kKeys; some += kFragment) {
      const int first = firstKey + some;
      if (first >= at.tokens || (a.causal && first >= at.warpEnd)) break;
      float scores[T::kBands][2][4] = {}, dp[T::kBands][2][4] = {};
      LOCKSTEP_UNROLL
      for (int c = 0; c < T::kSteps; ++c) {
        unsigned b[4];
        loadRightOfRows(b, k[stage] + some, c * kFragment);
        multiplyPair<F>(scores, 0, q[c], b);
        loadRightOfRows(b, v[stage] + some, c * kFragment);
        multiplyPair<F>(dp, 0, dy[c], b);
      }
      if (first + kFragment > at.tokens || (a.causal && first + kFragment - 1 > at.warpFirst))
        maskScores<false>(scores, a, at.warpFirst, first);
      unsigned ds[T::kBands][4];
      LOCKSTEP_UNROLL
      for (int i = 0; i < T::kBands; ++i) {
        LOCKSTEP_UNROLL
        for (int n = 0; n < 2; ++n) {
          LOCKSTEP_UNROLL
          for (int e = 0; e < 4; ++e) {
            const RowTerms& row = terms[i][e / 2];
            dp[i][n][e] = powerOfTwo(unit * scores[i][n][e] - row.sum) * (dp[i][n][e] - row.offset);
          }
        }
        packLeft<F>(ds[i], dp[i][0], dp[i][1]);
      }
      addRows<F, T>(dq, ds, k[stage] + some);
    }
  }
  const Index sample = at.head / a.heads, head = at.head % a.heads;
  LOCKSTEP_UNROLL
  for (int i = 0; i < T::kBands; ++i) {
    LOCKSTEP_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int query = at.warpFirst + i * kFragment + rowOf(2 * half);
      if (query >= at.tokens) continue;
      const Index row = (sample * a.tokens + query) * a.heads + head;
      writeRow<F, T>(a, row * 3 * a.head, dq[i], half, a.scale);
    }
  }
}

// Transposed scores of 16 queries, whose terms these are, to their weights p.
template <int kBands>
LOCKSTEP_DEVICE void weighColumns(float (&scores)[kBands][2][4], const RowTerms* terms,
                                  float unit) {
  LOCKSTEP_UNROLL
  for (int n = 0; n < 2; ++n) {
    LOCKSTEP_UNROLL
    for (int e = 0; e < 4; ++e) {
      const float sum = terms[n * 8 + columnOf(e)].sum;
      LOCKSTEP_UNROLL
      for (int i = 0; i < kBands; ++i) scores[i][n][e] = powerOfTwo(unit * scores[i][n][e] - sum);
    }
  }
}

// Of the same queries, dp = v·dyᵀ to ds = p·(dp − Σ dy·y).
template <int kBands>
LOCKSTEP_DEVICE void weighGradColumns(float (&dp)[kBands][2][4], const float (&p)[kBands][2][4],
                                      const RowTerms* terms) {
  LOCKSTEP_UNROLL
  for (int n = 0; n < 2; ++n) {
    LOCKSTEP_UNROLL
    for (int e = 0; e < 4; ++e) {
      const float offset = terms[n * 8 + columnOf(e)].offset;
      LOCKSTEP_UNROLL
      for (int i = 0; i < kBands; ++i) dp[i][n][e] = p[i][n][e] * (dp[i][n][e] - offset);
    }
  }
}

// dp = v·dyᵀ of 16 queries; the warp's rows of v are in shared memory.
template <typename F, typename T>
LOCKSTEP_DEVICE void multiplySharedRows(float (&dp)[T::kBands][2][4], const typename T::Row* v,
                                        const typename T::Row* dy) {
  LOCKSTEP_UNROLL
  for (int c = 0; c < T::kSteps; ++c) {
    unsigned b[4];
    loadRightOfRows(b, dy, c * kFragment);
    LOCKSTEP_UNROLL
    for (int i = 0; i < T::kBands; ++i) {
      unsigned left[4];
      loadLeft(left, v + i * kFragment, c * kFragment);
      F::multiply(dp[i][0], left, b[0], b[1]);
      F::multiply(dp[i][1], left, b[2], b[3]);
    }
  }
}

// dk and dv of the block's keys, over all queries that see them: dv = pᵀ·dy, dk = scale·dsᵀ·q.
// Computes transposed scores, so that a row is a key's.
template <typename F, typename T>
LOCKSTEP_DEVICE void keyGradByTensors(const TensorAttentionArguments& a) {
  LOCKSTEP_SHARED typename T::Row q[2][T::kQueries], dy[2][T::kQueries], v[T::kRows];
  LOCKSTEP_SHARED RowTerms terms[2][T::kQueries];
  const Place at = placeOf<T>(a, false);
  const float unit = a.scale * kLog2e;
  typename T::Left k;
  typename T::Out dk = {}, dv = {};
  const auto copyQueries = [&](int stage, int first) {
    copyRows(q[stage], a.q + at.operands, first, at.tokens);
    copyRows(dy[stage], a.dy + at.operands, first, at.tokens);
    const int r = static_cast<int>(threadIdx.x), query = first + r;
    if (r < T::kQueries)
      cpAsync<8>(&terms[stage][r], a.terms + at.head * a.tokens + (query < at.tokens ? query : 0),
                 query < at.tokens);
  };
  const int firstOfAll = a.causal ? at.first : 0;
  copyRows(v, a.v + at.operands, at.first, at.tokens);
  copyQueries(0, firstOfAll);
  readRows<T>(k, a.k + at.operands, at);
  const typename T::Row* const mine = v + warpOf() * T::kBands * kFragment;
  int stage = 0;
  for (int firstQuery = firstOfAll; firstQuery < at.tokens; firstQuery += T::kQueries, stage ^= 1) {
    cpAsyncWait();
    __syncthreads();  // this tile is there, and the one before has been read
    if (firstQuery + T::kQueries < at.tokens) copyQueries(stage ^ 1, firstQuery + T::kQueries);
    LOCKSTEP_UNROLL
    for (int some = 0; some < T::kQueries; some += kFragment) {
      const int first = firstQuery + some;
      if (first >= at.tokens) break;
      if (a.causal && first + kFragment <= at.warpFirst) continue;  // they see none of the warp's
      float scores[T::kBands][2][4] = {}, dp[T::kBands][2][4] = {};
      multiplyRows<F, T>(scores, k, q[stage] + some);
      if (first + kFragment > at.tokens || (a.causal && first < at.warpEnd - 1))
        maskScores<true>(scores, a, at.warpFirst, first);
      weighColumns(scores, terms[stage] + some, unit);
      multiplySharedRows<F, T>(dp, mine, dy[stage] + some);
      weighGradColumns(dp, scores, terms[stage] + some);
      unsigned p[T::kBands][4], ds[T::kBands][4];
      LOCKSTEP_UNROLL
      for (int i = 0; i < T::kBands; ++i) {
        packLeft<F>(p[i], scores[i][0], scores[i][1]);
        packLeft<F>(ds[i], dp[i][0], dp[i][1]);
      }
      LOCKSTEP_UNROLL
      for (int n = 0; n < T::kOut / 2; ++n) {
        unsigned b[4];
        loadRightOfColumns(b, dy[stage] + some, n * kFragment);
        multiplyPair<F>(dv, n, p, b);
        loadRightOfColumns(b, q[stage] + some, n * kFragment);
        multiplyPair<F>(dk, n, ds, b);
      }
    }
  }
  const Index sample = at.head / a.heads, head = at.head % a.heads;
  LOCKSTEP_UNROLL
  for (int i = 0; i < T::kBands; ++i) {
    LOCKSTEP_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int key = at.warpFirst + i * kFragment + rowOf(2 * half);
      if (key >= at.tokens) continue;
      const Index row = ((sample * a.tokens + key) * a.heads + head) * 3 * a.head;
      writeRow<F, T>(a, row + a.head, dk[i], half, a.scale);
      writeRow<F, T>(a, row + 2 * a.head, dv[i], half, 1);
    }
  }
}

struct alignas(16) EightHalves {
  unsigned x[4];
};

// Returns eight elements of x in the operands' type, zeros from element `count` on. All of them are
// aligned where `onSixteen`.
template <typename F>
LOCKSTEP_DEVICE EightHalves eightOf(const float* x, int count, bool onSixteen) {
  Four four[2] = {};
  if (onSixteen) {
    if (count > 0) {
      four[0] = reinterpret_cast<const Four*>(x)[0];
      four[1] = reinterpret_cast<const Four*>(x)[1];
    }
  } else {
    LOCKSTEP_UNROLL
    for (int e = 0; e < 8; ++e)
      if (e < count) four[e / 4].x[e % 4] = x[e];
  }
  EightHalves eight;
  LOCKSTEP_UNROLL
  for (int e = 0; e < 4; ++e)
    eight.x[e] = F::pack(four[e / 2].x[e % 2 * 2], four[e / 2].x[e % 2 * 2 + 1]);
  return eight;
}
template <typename F>
LOCKSTEP_DEVICE EightHalves eightOf(const std::uint16_t* x, int count, bool onSixteen) {
  EightHalves eight = {};
  if (onSixteen) {
    if (count > 0) eight = *reinterpret_cast<const EightHalves*>(x);
  } else {
    LOCKSTEP_UNROLL
    for (int e = 0; e < 8; ++e)
      if (e < count) eight.x[e / 2] |= static_cast<unsigned>(x[e]) << e % 2 * 16;
  }
  return eight;
}

// Casts q, k and v of a row of qkv, stored one after another for all tokens and heads.
template <typename F, typename X>
LOCKSTEP_DEVICE void castRow(const CastHeadsArguments& a) {
  const Index row = blockIdx.x, sample = row / a.tokens, token = row % a.tokens;
  const int each = a.pitch / 8, head = static_cast<int>(a.head), heads = static_cast<int>(a.heads);
  for (int i = static_cast<int>(threadIdx.x); i < 3 * heads * each;
       i += static_cast<int>(blockDim.x)) {
    const int part = i / each, c = i % each * 8;
    const X* const x = static_cast<const X*>(a.x) + (row * 3 * heads + part) * head + c;
    const EightHalves eight = eightOf<F>(x, head - c, a.onSixteen);
    const Index to = ((part % 3 * a.samples + sample) * heads + part / 3) * a.tokens + token;
    *reinterpret_cast<EightHalves*>(a.to + to * a.pitch + c) = eight;
  }
}

template <typename F>
LOCKSTEP_DEVICE float valueAt(const std::uint16_t* x, Index i) {
  return F::valueOf(x[i]);
}
template <typename F>
LOCKSTEP_DEVICE float valueAt(const float* x, Index i) {
  return x[i];
}

// Casts a row of dy, one warp per head, and computes the row's terms. Σ dy·y uses the rounded dy,
// so that ds sums to 0.
template <typename F, typename Dy, typename Y>
LOCKSTEP_DEVICE void castGradientRow(const CastHeadsArguments& a) {
  const Index row = blockIdx.x, sample = row / a.tokens, token = row % a.tokens;
  const auto* const dy = static_cast<const Dy*>(a.x);
  const auto* const y = static_cast<const Y*>(a.y);
  const int head = static_cast<int>(a.head), heads = static_cast<int>(a.heads);
  for (int h = warpOf(); h < heads; h += static_cast<int>(blockDim.x / kWarp)) {
    const Index from = (row * heads + h) * head, to = (sample * heads + h) * a.tokens + token;
    float sum = 0;
    for (int c = laneOf() * 2; c < a.pitch; c += static_cast<int>(kWarp) * 2) {
      const unsigned both = F::pack(c < head ? valueAt<F>(dy, from + c) : 0.0f,
                                    c + 1 < head ? valueAt<F>(dy, from + c + 1) : 0.0f);
      *reinterpret_cast<unsigned*>(a.to + to * a.pitch + c) = both;
      if (c < head) sum += F::valueOf(both & 0xffffu) * valueAt<F>(y, from + c);
      if (c + 1 < head) sum += F::valueOf(both >> 16) * valueAt<F>(y, from + c + 1);
    }
    for (int lane = kWarp / 2; lane > 0; lane /= 2) sum += __shfl_xor_sync(~0u, sum, lane);
    if (laneOf() == 0) a.terms[to] = {a.lse[row * heads + h] * kLog2e, sum};
  }
}

template <typename F>
LOCKSTEP_DEVICE void castQkv(const CastHeadsArguments& a) {
  a.narrowX ? castRow<F, std::uint16_t>(a) : castRow<F, float>(a);
}
template <typename F>
LOCKSTEP_DEVICE void castGradient(const CastHeadsArguments& a) {
  if (a.narrowX)
    a.narrowY ? castGradientRow<F, std::uint16_t, std::uint16_t>(a)
              : castGradientRow<F, std::uint16_t, float>(a);
  else
    a.narrowY ? castGradientRow<F, float, std::uint16_t>(a) : castGradientRow<F, float, float>(a);
}

}  // namespace

LOCKSTEP_TENSOR_KERNEL(attentionCastBf16, CastHeadsArguments, kThreads, 4) { castQkv<InBf16>(a); }
LOCKSTEP_TENSOR_KERNEL(attentionCastF16, CastHeadsArguments, kThreads, 4) { castQkv<InF16>(a); }
LOCKSTEP_TENSOR_KERNEL(attentionTermsBf16, CastHeadsArguments, kThreads, 4) {
  castGradient<InBf16>(a);
}
LOCKSTEP_TENSOR_KERNEL(attentionTermsF16, CastHeadsArguments, kThreads, 4) {
  castGradient<InF16>(a);
}

#define LOCKSTEP_ATTENTION(form, F, T)                                                            \
  LOCKSTEP_TENSOR_KERNEL(attention##form, TensorAttentionArguments, kTensorThreads, 2) {          \
    attendByTensors<F, T>(a);                                                                     \
  }                                                                                               \
  LOCKSTEP_TENSOR_KERNEL(attentionQueryGrad##form, TensorAttentionArguments, kTensorThreads, 2) { \
    queryGradByTensors<F, T>(a);                                                                  \
  }                                                                                               \
  LOCKSTEP_TENSOR_KERNEL(attentionKeyGrad##form, TensorAttentionArguments, kTensorThreads, 2) {   \
    keyGradByTensors<F, T>(a);                                                                    \
  }
LOCKSTEP_ATTENTION(Bf16, InBf16, NarrowHeads)
LOCKSTEP_ATTENTION(WideBf16, InBf16, WideHeads)
LOCKSTEP_ATTENTION(F16, InF16, NarrowHeads)
LOCKSTEP_ATTENTION(WideF16, InF16, WideHeads)
#undef LOCKSTEP_ATTENTION

}  // namespace lockstep::backends::cuda
