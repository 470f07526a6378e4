// Attention without a score matrix (Dao et al.: "FlashAttention", 2022): tiles of queries against
// tiles of keys, with running row sums. Four adjacent threads share a row of queries; each has a
// quarter of the scores of each tile and a quarter of the channels of the result.
#include "engine/backends/cuda/block.h"

namespace lockstep::backends::cuda {
namespace {

constexpr int kQuarter = 4;
static_assert(kAttentionThreads == kQueryTile * kQuarter);

// Tile sizes of a kernel for heads of up to kHead_ channels, zero-padded in shared memory.
template <int kHead_, int kKeyTile_>
struct Tiles {
  static constexpr int kHead = kHead_, kKeyTile = kKeyTile_;
  static constexpr int kScores = kKeyTile / kQuarter, kChannels = kHead / kQuarter;  // per thread
  using Queries = float[kQueryTile][kHead + 1];
  using Keys = float[kKeyTile][kHead + 1];
  using Scores = float[kQueryTile][kKeyTile + 1];
};
using Narrow = Tiles<kNarrowHead, 16>;
using Wide = Tiles<kLargestHead, 8>;  // limited by 48 KiB of shared memory

// Blocks: the token tiles of one sample and head, then of the next head.
LOCKSTEP_DEVICE Index tilesOf(const AttentionArguments& a) {
  return (a.tokens + kQueryTile - 1) / kQueryTile;
}
LOCKSTEP_DEVICE Index firstToken(const AttentionArguments& a) {
  return blockIdx.x % tilesOf(a) * kQueryTile;
}

// Operands of one sample and head; rows are tokens. The token stride is 3·heads·head in qkv and
// heads·head in y.
struct Head {
  const float *q, *k, *v;
  Index stride, y, yStride, sums;  // y, sums: offsets of the first token
};
LOCKSTEP_DEVICE Head headOf(const AttentionArguments& a) {
  const Index at = blockIdx.x / tilesOf(a), sample = at / a.heads, head = at % a.heads,
              stride = 3 * a.heads * a.head;
  const float* q = a.qkv + sample * a.tokens * stride + head * 3 * a.head;
  return {q,
          q + a.head,
          q + 2 * a.head,
          stride,
          sample * a.tokens * a.heads * a.head + head * a.head,
          a.heads * a.head,
          sample * a.tokens * a.heads + head};
}

// Loads rows first … first + kRows of x into shared memory, zero-filled beyond the last token.
template <int kRows, int kPitch>
LOCKSTEP_DEVICE void load(float (&to)[kRows][kPitch], const float* x, Index stride, Index first,
                          const AttentionArguments& a) {
  constexpr int kHead = kPitch - 1;
  for (int i = static_cast<int>(threadIdx.x); i < kRows * kHead;
       i += static_cast<int>(kAttentionThreads)) {
    const int r = i / kHead, c = i % kHead;
    to[r][c] = first + r < a.tokens && c < a.head ? x[(first + r) * stride + c] : 0.0f;
  }
}

template <int kHead>
LOCKSTEP_DEVICE float dotOf(const float* x, const float* y) {
  float sum = 0;
  LOCKSTEP_UNROLL_16
  for (int c = 0; c < kHead; ++c) sum += x[c] * y[c];
  return sum;
}

LOCKSTEP_DEVICE bool sees(const AttentionArguments& a, Index query, Index key) {
  return key < a.tokens && (!a.causal || key <= query);
}
// End of the keys visible to any query of the tile.
LOCKSTEP_DEVICE Index keysEnd(const AttentionArguments& a, Index firstQuery) {
  const Index end = firstQuery + kQueryTile;
  return a.causal && end < a.tokens ? end : a.tokens;
}

template <typename T>
LOCKSTEP_DEVICE void attend(const AttentionArguments& a) {
  LOCKSTEP_SHARED typename T::Queries q;
  LOCKSTEP_SHARED typename T::Keys k, v;
  LOCKSTEP_SHARED typename T::Scores p;
  const Head head = headOf(a);
  const Index firstQuery = firstToken(a);
  const int row = static_cast<int>(threadIdx.x) / kQuarter,
            quarter = static_cast<int>(threadIdx.x) % kQuarter;
  const Index query = firstQuery + row;
  float out[T::kChannels] = {}, top = -INFINITY, sum = 0;
  load(q, head.q, head.stride, firstQuery, a);
  for (Index firstKey = 0; firstKey < keysEnd(a, firstQuery); firstKey += T::kKeyTile) {
    __syncthreads();  // the previous tile has been read
    load(k, head.k, head.stride, firstKey, a);
    load(v, head.v, head.stride, firstKey, a);
    __syncthreads();
    float scores[T::kScores], most = -INFINITY;
    LOCKSTEP_UNROLL
    for (int i = 0; i < T::kScores; ++i) {
      const int key = i * kQuarter + quarter;
      scores[i] =
          sees(a, query, firstKey + key) ? a.scale * dotOf<T::kHead>(q[row], k[key]) : -INFINITY;
      most = fmaxf(most, scores[i]);
    }
    const float newTop = fmaxf(top, quarterMax(most));
    const float kept = newTop == -INFINITY ? 1.0f : expf(top - newTop);
    float added = 0;
    LOCKSTEP_UNROLL
    for (int i = 0; i < T::kScores; ++i) {
      const float one = scores[i] == -INFINITY ? 0.0f : expf(scores[i] - newTop);
      added += one;
      p[row][i * kQuarter + quarter] = one;
    }
    sum = sum * kept + quarterSum(added);
    top = newTop;
    __syncthreads();
    LOCKSTEP_UNROLL
    for (int c = 0; c < T::kChannels; ++c) {
      float value = out[c] * kept;
      LOCKSTEP_UNROLL
      for (int key = 0; key < T::kKeyTile; ++key)
        value += p[row][key] * v[key][c * kQuarter + quarter];
      out[c] = value;
    }
  }
  if (query >= a.tokens) return;
  LOCKSTEP_UNROLL
  for (int c = 0; c < T::kChannels; ++c)
    if (c * kQuarter + quarter < a.head)
      a.out[head.y + query * head.yStride + c * kQuarter + quarter] = out[c] / sum;
  if (quarter == 0) a.lseOut[head.sums + query * a.heads] = top + logf(sum);
}

// dq of a tile of queries, over all keys they see: ds = p·(dp − Σ dy·y), dq = scale·ds·k.
template <typename T>
LOCKSTEP_DEVICE void attendQueryGrad(const AttentionArguments& a) {
  LOCKSTEP_SHARED typename T::Queries q, dy;
  LOCKSTEP_SHARED typename T::Keys k, v;
  LOCKSTEP_SHARED typename T::Scores ds;
  const Head head = headOf(a);
  const Index firstQuery = firstToken(a);
  const int row = static_cast<int>(threadIdx.x) / kQuarter,
            quarter = static_cast<int>(threadIdx.x) % kQuarter;
  const Index query = firstQuery + row;
  const float lse = query < a.tokens ? a.lse[head.sums + query * a.heads] : 0.0f;
  const float offset = query < a.tokens ? a.offsets[head.sums + query * a.heads] : 0.0f;
  float out[T::kChannels] = {};
  load(q, head.q, head.stride, firstQuery, a);
  load(dy, a.dy + head.y, head.yStride, firstQuery, a);
  for (Index firstKey = 0; firstKey < keysEnd(a, firstQuery); firstKey += T::kKeyTile) {
    __syncthreads();
    load(k, head.k, head.stride, firstKey, a);
    load(v, head.v, head.stride, firstKey, a);
    __syncthreads();
    LOCKSTEP_UNROLL
    for (int i = 0; i < T::kScores; ++i) {
      const int key = i * kQuarter + quarter;
      const float one = sees(a, query, firstKey + key) && query < a.tokens
                            ? expf(a.scale * dotOf<T::kHead>(q[row], k[key]) - lse)
                            : 0.0f;
      ds[row][key] = one * (dotOf<T::kHead>(dy[row], v[key]) - offset) * a.scale;
    }
    __syncthreads();
    LOCKSTEP_UNROLL
    for (int c = 0; c < T::kChannels; ++c)
      for (int key = 0; key < T::kKeyTile; ++key)
        out[c] += ds[row][key] * k[key][c * kQuarter + quarter];
  }
  if (query >= a.tokens) return;
  const Index at = head.q - a.qkv + query * head.stride;
  for (int c = 0; c < T::kChannels; ++c)
    if (c * kQuarter + quarter < a.head) a.out[at + c * kQuarter + quarter] = out[c];
}

// dk and dv of a tile of keys (as many as rows in a query tile), over all queries that see them,
// one key tile's number of queries at a time.
template <typename T>
LOCKSTEP_DEVICE void attendKeyGrad(const AttentionArguments& a) {
  LOCKSTEP_SHARED typename T::Queries k, v;
  LOCKSTEP_SHARED typename T::Keys q, dy;
  LOCKSTEP_SHARED typename T::Scores p, ds;
  const Head head = headOf(a);
  const Index firstKey = firstToken(a);
  const int row = static_cast<int>(threadIdx.x) / kQuarter,
            quarter = static_cast<int>(threadIdx.x) % kQuarter;
  const Index key = firstKey + row;
  float dk[T::kChannels] = {}, dv[T::kChannels] = {};
  load(k, head.k, head.stride, firstKey, a);
  load(v, head.v, head.stride, firstKey, a);
  for (Index firstQuery = a.causal ? firstKey : 0; firstQuery < a.tokens;
       firstQuery += T::kKeyTile) {
    __syncthreads();
    load(q, head.q, head.stride, firstQuery, a);
    load(dy, a.dy + head.y, head.yStride, firstQuery, a);
    __syncthreads();
    LOCKSTEP_UNROLL
    for (int i = 0; i < T::kScores; ++i) {
      const int at = i * kQuarter + quarter;
      const Index query = firstQuery + at;
      const bool seen = query < a.tokens && sees(a, query, key);
      const Index sums = head.sums + (seen ? query : 0) * a.heads;
      const float one = seen ? expf(a.scale * dotOf<T::kHead>(q[at], k[row]) - a.lse[sums]) : 0.0f;
      p[row][at] = one;
      ds[row][at] = one * (dotOf<T::kHead>(dy[at], v[row]) - a.offsets[sums]) * a.scale;
    }
    __syncthreads();
    LOCKSTEP_UNROLL
    for (int c = 0; c < T::kChannels; ++c)
      for (int at = 0; at < T::kKeyTile; ++at) {
        dk[c] += ds[row][at] * q[at][c * kQuarter + quarter];
        dv[c] += p[row][at] * dy[at][c * kQuarter + quarter];
      }
  }
  if (key >= a.tokens) return;
  const Index at = head.k - a.qkv + key * head.stride;
  for (int c = 0; c < T::kChannels; ++c) {
    if (c * kQuarter + quarter >= a.head) continue;
    a.out[at + c * kQuarter + quarter] = dk[c];
    a.out[at + a.head + c * kQuarter + quarter] = dv[c];
  }
}

}  // namespace

LOCKSTEP_KERNEL(attention, AttentionArguments) { attend<Narrow>(a); }
LOCKSTEP_KERNEL(attentionWide, AttentionArguments) { attend<Wide>(a); }

// Writes Σ dy·y of each row and head to `out`, in the layout of lse; one thread each.
LOCKSTEP_KERNEL(attentionOffsets, AttentionArguments) {
  for (Index i = firstOf(); i < a.samples * a.tokens * a.heads; i += strideOf()) {
    float sum = 0;
    for (Index c = 0; c < a.head; ++c) sum += a.dy[i * a.head + c] * a.y[i * a.head + c];
    a.out[i] = sum;
  }
}
LOCKSTEP_KERNEL(attentionQueryGrad, AttentionArguments) { attendQueryGrad<Narrow>(a); }
LOCKSTEP_KERNEL(attentionQueryGradWide, AttentionArguments) { attendQueryGrad<Wide>(a); }
LOCKSTEP_KERNEL(attentionKeyGrad, AttentionArguments) { attendKeyGrad<Narrow>(a); }
LOCKSTEP_KERNEL(attentionKeyGradWide, AttentionArguments) { attendKeyGrad<Wide>(a); }

}  // namespace lockstep::backends::cuda
