// Attention without a score matrix (Dao et al.: "FlashAttention", 2022): tiles of queries against tiles of keys, with
// the rows' sums kept up as they come. Of a row of queries four neighbouring threads have a quarter of the scores of
// each tile, and a quarter of the channels of its result.
#include "engine/backends/cuda/block.h"

namespace lockstep::backends::cuda {
namespace {

constexpr int kHead = kLargestHead;  // channels in shared memory; those beyond a head's are 0
constexpr int kQuarter = 4;
constexpr int kScores = kKeyTile / kQuarter;  // of a thread
static_assert(kAttentionThreads == kQueryTile * kQuarter);

// Of one sample and head; a row is a token. From one to the next qkv is 3·heads·head apart, y heads·head.
struct Head {
  const float *q, *k, *v;
  Index stride, y, yStride, sums;  // y, sums: of the first token
};
LOCKSTEP_DEVICE Head headOf(const AttentionArguments& a) {
  const Index sample = blockIdx.y / a.heads, head = blockIdx.y % a.heads, stride = 3 * a.heads * a.head;
  const float* q = a.qkv + sample * a.tokens * stride + head * 3 * a.head;
  return {q, q + a.head, q + 2 * a.head, stride, sample * a.tokens * a.heads * a.head + head * a.head,
          a.heads * a.head, sample * a.tokens * a.heads + head};
}

// Rows first … first + kRows of x into shared memory, zeros beyond the last token.
template <int kRows>
LOCKSTEP_DEVICE void load(float (&to)[kRows][kHead + 1], const float* x, Index stride, Index first,
                          const AttentionArguments& a) {
  for (int i = static_cast<int>(threadIdx.x); i < kRows * kHead; i += static_cast<int>(kAttentionThreads)) {
    const int r = i / kHead, c = i % kHead;
    to[r][c] = first + r < a.tokens && c < a.head ? x[(first + r) * stride + c] : 0.0f;
  }
}

LOCKSTEP_DEVICE float dotOf(const float* x, const float* y) {
  float sum = 0;
  LOCKSTEP_UNROLL
  for (int c = 0; c < kHead; ++c) sum += x[c] * y[c];
  return sum;
}

LOCKSTEP_DEVICE float quarterSum(float x) {
  x += __shfl_xor_sync(~0u, x, 1);
  return x + __shfl_xor_sync(~0u, x, 2);
}
LOCKSTEP_DEVICE float quarterMax(float x) {
  x = fmaxf(x, __shfl_xor_sync(~0u, x, 1));
  return fmaxf(x, __shfl_xor_sync(~0u, x, 2));
}

LOCKSTEP_DEVICE bool sees(const AttentionArguments& a, Index query, Index key) {
  return key < a.tokens && (!a.causal || key <= query);
}
// The keys that any query of the tile sees end here.
LOCKSTEP_DEVICE Index keysEnd(const AttentionArguments& a, Index firstQuery) {
  const Index end = firstQuery + kQueryTile;
  return a.causal && end < a.tokens ? end : a.tokens;
}

LOCKSTEP_DEVICE void attend(const AttentionArguments& a) {
  LOCKSTEP_SHARED float q[kQueryTile][kHead + 1], k[kKeyTile][kHead + 1], v[kKeyTile][kHead + 1];
  LOCKSTEP_SHARED float p[kQueryTile][kKeyTile + 1];
  const Head head = headOf(a);
  const Index firstQuery = static_cast<Index>(blockIdx.x) * kQueryTile;
  const int row = static_cast<int>(threadIdx.x) / kQuarter, quarter = static_cast<int>(threadIdx.x) % kQuarter;
  const Index query = firstQuery + row;
  float out[kHead / kQuarter] = {}, top = -INFINITY, sum = 0;
  load<kQueryTile>(q, head.q, head.stride, firstQuery, a);
  for (Index firstKey = 0; firstKey < keysEnd(a, firstQuery); firstKey += kKeyTile) {
    __syncthreads();  // the tile before has been read
    load<kKeyTile>(k, head.k, head.stride, firstKey, a);
    load<kKeyTile>(v, head.v, head.stride, firstKey, a);
    __syncthreads();
    float scores[kScores], most = -INFINITY;
    LOCKSTEP_UNROLL
    for (int i = 0; i < kScores; ++i) {
      const int key = i * kQuarter + quarter;
      scores[i] = sees(a, query, firstKey + key) ? a.scale * dotOf(q[row], k[key]) : -INFINITY;
      most = fmaxf(most, scores[i]);
    }
    const float newTop = fmaxf(top, quarterMax(most));
    const float kept = newTop == -INFINITY ? 1.0f : expf(top - newTop);
    float added = 0;
    LOCKSTEP_UNROLL
    for (int i = 0; i < kScores; ++i) {
      const float one = scores[i] == -INFINITY ? 0.0f : expf(scores[i] - newTop);
      added += one;
      p[row][i * kQuarter + quarter] = one;
    }
    sum = sum * kept + quarterSum(added);
    top = newTop;
    __syncthreads();
    LOCKSTEP_UNROLL
    for (int c = 0; c < kHead / kQuarter; ++c) {
      float value = out[c] * kept;
      LOCKSTEP_UNROLL
      for (int key = 0; key < kKeyTile; ++key) value += p[row][key] * v[key][c * kQuarter + quarter];
      out[c] = value;
    }
  }
  if (query >= a.tokens) return;
  LOCKSTEP_UNROLL
  for (int c = 0; c < kHead / kQuarter; ++c)
    if (c * kQuarter + quarter < a.head)
      a.out[head.y + query * head.yStride + c * kQuarter + quarter] = out[c] / sum;
  if (quarter == 0) a.lseOut[head.sums + query * a.heads] = top + logf(sum);
}

// dq of a tile of queries, from all keys they see: ds = p·(dp − Σ dy·y), dq = scale·ds·k.
LOCKSTEP_DEVICE void attendQueryGrad(const AttentionArguments& a) {
  LOCKSTEP_SHARED float q[kQueryTile][kHead + 1], dy[kQueryTile][kHead + 1];
  LOCKSTEP_SHARED float k[kKeyTile][kHead + 1], v[kKeyTile][kHead + 1], ds[kQueryTile][kKeyTile + 1];
  const Head head = headOf(a);
  const Index firstQuery = static_cast<Index>(blockIdx.x) * kQueryTile;
  const int row = static_cast<int>(threadIdx.x) / kQuarter, quarter = static_cast<int>(threadIdx.x) % kQuarter;
  const Index query = firstQuery + row;
  const float lse = query < a.tokens ? a.lse[head.sums + query * a.heads] : 0.0f;
  const float offset = query < a.tokens ? a.offsets[head.sums + query * a.heads] : 0.0f;
  float out[kHead / kQuarter] = {};
  load<kQueryTile>(q, head.q, head.stride, firstQuery, a);
  load<kQueryTile>(dy, a.dy + head.y, head.yStride, firstQuery, a);
  for (Index firstKey = 0; firstKey < keysEnd(a, firstQuery); firstKey += kKeyTile) {
    __syncthreads();
    load<kKeyTile>(k, head.k, head.stride, firstKey, a);
    load<kKeyTile>(v, head.v, head.stride, firstKey, a);
    __syncthreads();
    LOCKSTEP_UNROLL
    for (int i = 0; i < kScores; ++i) {
      const int key = i * kQuarter + quarter;
      const float one = sees(a, query, firstKey + key) && query < a.tokens
                            ? expf(a.scale * dotOf(q[row], k[key]) - lse) : 0.0f;
      ds[row][key] = one * (dotOf(dy[row], v[key]) - offset) * a.scale;
    }
    __syncthreads();
    LOCKSTEP_UNROLL
    for (int c = 0; c < kHead / kQuarter; ++c)
      for (int key = 0; key < kKeyTile; ++key) out[c] += ds[row][key] * k[key][c * kQuarter + quarter];
  }
  if (query >= a.tokens) return;
  const Index at = head.q - a.qkv + query * head.stride;
  for (int c = 0; c < kHead / kQuarter; ++c)
    if (c * kQuarter + quarter < a.head) a.out[at + c * kQuarter + quarter] = out[c];
}

// dk and dv of a tile of as many keys as there are rows in a tile of queries, from all queries that see them, as many
// at a time as there are keys in one.
LOCKSTEP_DEVICE void attendKeyGrad(const AttentionArguments& a) {
  LOCKSTEP_SHARED float k[kQueryTile][kHead + 1], v[kQueryTile][kHead + 1];
  LOCKSTEP_SHARED float q[kKeyTile][kHead + 1], dy[kKeyTile][kHead + 1];
  LOCKSTEP_SHARED float p[kQueryTile][kKeyTile + 1], ds[kQueryTile][kKeyTile + 1];
  const Head head = headOf(a);
  const Index firstKey = static_cast<Index>(blockIdx.x) * kQueryTile;
  const int row = static_cast<int>(threadIdx.x) / kQuarter, quarter = static_cast<int>(threadIdx.x) % kQuarter;
  const Index key = firstKey + row;
  float dk[kHead / kQuarter] = {}, dv[kHead / kQuarter] = {};
  load<kQueryTile>(k, head.k, head.stride, firstKey, a);
  load<kQueryTile>(v, head.v, head.stride, firstKey, a);
  for (Index firstQuery = a.causal ? firstKey : 0; firstQuery < a.tokens; firstQuery += kKeyTile) {
    __syncthreads();
    load<kKeyTile>(q, head.q, head.stride, firstQuery, a);
    load<kKeyTile>(dy, a.dy + head.y, head.yStride, firstQuery, a);
    __syncthreads();
    LOCKSTEP_UNROLL
    for (int i = 0; i < kScores; ++i) {
      const int at = i * kQuarter + quarter;
      const Index query = firstQuery + at;
      const bool seen = query < a.tokens && sees(a, query, key);
      const Index sums = head.sums + (seen ? query : 0) * a.heads;
      const float one = seen ? expf(a.scale * dotOf(q[at], k[row]) - a.lse[sums]) : 0.0f;
      p[row][at] = one;
      ds[row][at] = one * (dotOf(dy[at], v[row]) - a.offsets[sums]) * a.scale;
    }
    __syncthreads();
    LOCKSTEP_UNROLL
    for (int c = 0; c < kHead / kQuarter; ++c)
      for (int at = 0; at < kKeyTile; ++at) {
        dk[c] += ds[row][at] * q[at][c * kQuarter + quarter];
        dv[c] += p[row][at] * dy[at][c * kQuarter + quarter];
      }
  }
  if (key >= a.tokens) return;
  const Index at = head.k - a.qkv + key * head.stride;
  for (int c = 0; c < kHead / kQuarter; ++c) {
    if (c * kQuarter + quarter >= a.head) continue;
    a.out[at + c * kQuarter + quarter] = dk[c];
    a.out[at + a.head + c * kQuarter + quarter] = dv[c];
  }
}

}  // namespace

// Blocks: tiles of kQueryTile tokens (x), heads of samples (y).
LOCKSTEP_KERNEL(attention, AttentionArguments) { attend(a); }

// Σ dy·y of each row and head, into `out` as lse lies: a thread each.
LOCKSTEP_KERNEL(attentionOffsets, AttentionArguments) {
  for (Index i = firstOf(); i < a.samples * a.tokens * a.heads; i += strideOf()) {
    float sum = 0;
    for (Index c = 0; c < a.head; ++c) sum += a.dy[i * a.head + c] * a.y[i * a.head + c];
    a.out[i] = sum;
  }
}
LOCKSTEP_KERNEL(attentionQueryGrad, AttentionArguments) { attendQueryGrad(a); }
LOCKSTEP_KERNEL(attentionKeyGrad, AttentionArguments) { attendKeyGrad(a); }

}  // namespace lockstep::backends::cuda
