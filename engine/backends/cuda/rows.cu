// Gradients of tables, dense and row-sparse: rows are grouped by sorting their ids, so that no two
// threads write one row and sums have a fixed order.
#include "engine/backends/cuda/block.h"

namespace lockstep::backends::cuda {
namespace {

// Returns the index of the first of n ascending keys that is not below `key`.
LOCKSTEP_DEVICE Index lowerBound(const std::uint32_t* keys, Index n, std::uint32_t key) {
  Index first = 0;
  for (Index count = n; count > 0;) {
    const Index half = count / 2;
    const bool below = keys[first + half] < key;
    if (below) first += half + 1;
    count = below ? count - half - 1 : half;
  }
  return first;
}

// Given sorted keys: returns the sum of column c over the rows whose key is that at `at`, the first
// of its run, in order of position.
LOCKSTEP_DEVICE float sumOfRows(const std::uint32_t* keys, const std::uint32_t* places, Index n,
                                Index at, const float* rows, Index channels, Index c) {
  float sum = rows[places[at] * channels + c];
  if (at + 1 == n || keys[at + 1] != keys[at]) return sum;
  const Index end = at + lowerBound(keys + at, n - at, keys[at] + 1);
  for (Index i = at + 1; i < end; ++i) sum += rows[places[i] * channels + c];
  return sum;
}

LOCKSTEP_DEVICE unsigned digitOf(const SortArguments& a, std::uint32_t key) {
  return key >> a.shift & (kSortDigits - 1);
}
LOCKSTEP_DEVICE Index tileEnd(const SortArguments& a) {
  const Index end = (static_cast<Index>(blockIdx.x) + 1) * a.tile;
  return end < a.n ? end : a.n;
}

}  // namespace

LOCKSTEP_KERNEL(sortCounts, SortArguments) {
  LOCKSTEP_SHARED unsigned counts[kSortDigits];
  counts[threadIdx.x] = 0;
  __syncthreads();
  for (Index i = blockIdx.x * a.tile + threadIdx.x; i < tileEnd(a); i += kThreads)
    atomicAdd(&counts[digitOf(a, a.keys[i])], 1u);
  __syncthreads();
  a.counts[threadIdx.x * a.tiles + blockIdx.x] = counts[threadIdx.x];
}

// One block, one thread per digit: the offset of a digit counts all lower digits, and its own in
// earlier tiles.
LOCKSTEP_KERNEL(sortOffsets, SortArguments) {
  LOCKSTEP_SHARED unsigned totals[kSortDigits];
  std::uint32_t* const mine = a.counts + threadIdx.x * a.tiles;
  unsigned total = 0;
  for (unsigned tile = 0; tile < a.tiles; ++tile) total += mine[tile];
  totals[threadIdx.x] = total;
  __syncthreads();
  unsigned at = 0;
  for (unsigned digit = 0; digit < threadIdx.x; ++digit) at += totals[digit];
  for (unsigned tile = 0; tile < a.tiles; ++tile) {
    const unsigned count = mine[tile];
    mine[tile] = at;
    at += count;
  }
}

// One key per thread at a time: its offset adds keys of its digit in earlier lanes of its warp, in
// earlier warps, and those counted in `next`.
LOCKSTEP_KERNEL(sortScatter, SortArguments) {
  constexpr unsigned kWarps = kThreads / kWarp;
  LOCKSTEP_SHARED unsigned counts[kWarps][kSortDigits], next[kSortDigits];
  const unsigned lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  next[threadIdx.x] = a.counts[threadIdx.x * a.tiles + blockIdx.x];
  for (Index first = blockIdx.x * a.tile; first < tileEnd(a); first += kThreads) {
    for (unsigned w = 0; w < kWarps; ++w) counts[w][threadIdx.x] = 0;
    __syncthreads();
    const Index i = first + threadIdx.x;
    const bool valid = i < tileEnd(a);
    const std::uint32_t key = valid ? a.keys[i] : 0;
    const unsigned digit = digitOf(a, key);
    unsigned same = __ballot_sync(~0u, valid);
    LOCKSTEP_UNROLL
    for (unsigned bit = 0; bit < kSortBits; ++bit) {
      const bool one = (digit >> bit & 1) != 0;
      const unsigned ones = __ballot_sync(~0u, one);
      same &= one ? ones : ~ones;
    }
    const unsigned before = same & ((1u << lane) - 1);
    if (valid && before == 0) counts[warp][digit] = static_cast<unsigned>(__popc(same));
    __syncthreads();
    if (valid) {
      unsigned at = next[digit] + static_cast<unsigned>(__popc(before));
      for (unsigned w = 0; w < warp; ++w) at += counts[w][digit];
      a.keysOut[at] = key;
      a.placesOut[at] = a.places != nullptr ? a.places[i] : static_cast<std::uint32_t>(i);
    }
    __syncthreads();
    for (unsigned w = 0; w < kWarps; ++w) next[threadIdx.x] += counts[w][threadIdx.x];
  }
}

// One thread per element of the rows: the thread of an id's first row adds up all rows of the id.
LOCKSTEP_KERNEL(embeddingGrad, EmbeddingGradArguments) {
  for (Index i = firstOf(); i < a.n * a.channels; i += strideOf()) {
    const Index at = i / a.channels, c = i % a.channels;
    const std::uint32_t key = a.keys[at];
    const Index row = static_cast<std::int32_t>(key) - a.first;
    if (row < 0 || row >= a.vocabulary || (at > 0 && a.keys[at - 1] == key)) continue;
    a.y[row * a.channels + c] = sumOfRows(a.keys, a.places, a.n, at, a.dy, a.channels, c);
  }
}

// One thread per element. The thread of an id's first row adds up all its rows in order.
LOCKSTEP_KERNEL(combineRows, CombineArguments) {
  for (Index i = firstOf(); i < a.n * a.channels; i += strideOf()) {
    const Index at = i / a.channels, c = i % a.channels;
    const std::uint32_t key = a.keys[at];
    const Index place = a.places[at];
    const bool isFirst = key <= 0x7fffffffu && (at == 0 || a.keys[at - 1] != key);
    if (c == 0) a.ids[place] = isFirst ? static_cast<std::int32_t>(key) : -1;
    if (isFirst)
      a.sums[place * a.channels + c] = sumOfRows(a.keys, a.places, a.n, at, a.rows, a.channels, c);
    else if (a.sums != a.rows)
      a.sums[place * a.channels + c] = a.rows[place * a.channels + c];
  }
}

// Given sorted ids: marks each id's first position and its part.
LOCKSTEP_KERNEL(uniqueParts, UniqueArguments) {
  for (Index at = firstOf(); at < a.n; at += strideOf()) {
    const std::uint32_t key = a.keys[at], place = a.places[at];
    const Index head = lowerBound(a.keys, a.n, key);
    Index part = 0;
    while (part + 1 < a.parts && static_cast<std::int32_t>(key) >= a.cuts[part + 1]) ++part;
    a.first[place] = a.places[head];
    a.part[place] = static_cast<std::uint32_t>(head == at ? part : a.parts);
  }
}
// Given sorted parts: numbers the first positions; others come last.
LOCKSTEP_KERNEL(uniqueNumbers, UniqueArguments) {
  for (Index at = firstOf(); at < a.most || at < a.parts; at += strideOf()) {
    if (at < a.parts) {
      const auto part = static_cast<std::uint32_t>(at);
      a.counts[at] = static_cast<std::int32_t>(lowerBound(a.keys, a.n, part + 1) -
                                               lowerBound(a.keys, a.n, part));
    }
    if (at >= a.most) continue;
    const bool one = at < a.n && a.keys[at] < a.parts;
    a.each[at] = one ? a.ids[a.places[at]] : -1;
    if (one) a.number[a.places[at]] = static_cast<std::uint32_t>(at);
  }
}
LOCKSTEP_KERNEL(uniquePlaces, UniqueArguments) {
  for (Index i = firstOf(); i < a.n; i += strideOf())
    a.out[i] = static_cast<std::int32_t>(a.number[a.first[i]]);
}

// Ids are distinct.
LOCKSTEP_KERNEL(updateRows, RowsUpdateArguments) {
  if (*a.norm < 0) return;
  const float scale = *a.norm <= 0 ? 0.0f : 1 / *a.norm, lr = *a.lr;
  for (Index i = firstOf(); i < a.n * a.channels; i += strideOf()) {
    const Index id = a.ids[i / a.channels], at = id * a.channels - a.first + i % a.channels;
    if (id < 0 || at < 0 || at >= a.elements) continue;
    const float g = a.sums[i] * scale;
    if (!a.adagrad) {
      a.s[at] = g;
      a.p[at] -= lr * g;
      continue;
    }
    const float s = a.s[at] + g * g;
    a.s[at] = s;
    if (g != 0) a.p[at] -= lr * g / (sqrtf(s) + a.epsilon);
  }
}

}  // namespace lockstep::backends::cuda
