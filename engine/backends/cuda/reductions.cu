#include "engine/backends/cuda/block.h"

namespace lockstep::backends::cuda {
namespace {

template <int N, typename T>
LOCKSTEP_DEVICE void addColumns(const ColumnSumArguments& a) {
  const auto* all = static_cast<const T*>(a.x);
  const Index c = (static_cast<Index>(blockIdx.x) * kWarp + threadIdx.x % kWarp) * N,
              part = blockIdx.y, last = a.rows * (part + 1) / a.parts;
  float sums[N] = {};
  for (Index r = a.rows * part / a.parts + threadIdx.x / kWarp; c < a.columns && r < last;
       r += kThreads / kWarp) {
    const Few<N> x = valuesAt<N>(all + r * a.columns + c);
    for (int k = 0; k < N; ++k) sums[k] += x.x[k];
  }
  laneSums(sums);
  if (threadIdx.x >= kWarp || c >= a.columns) return;
  for (int k = 0; k < N; ++k) a.y[part * a.columns + c + k] = sums[k];
}

}  // namespace

LOCKSTEP_KERNEL(sums, SumArguments) {
  float sum = 0;
  for (Index i = firstOf(); i < a.n; i += strideOf()) {
    if (a.ids != nullptr && a.ids[i / a.columns] == -1) continue;
    sum += a.squares ? a.x[i] * a.x[i] : a.x[i];
  }
  sum = blockSum(sum);
  if (threadIdx.x == 0) a.y[blockIdx.x] = sum;
}

LOCKSTEP_KERNEL(clipNorm, ClipNormArguments) {
  const float norm = *a.norm;
  const float over = sqrtf(*a.squares) / (norm * a.limit);
  if (threadIdx.x == 0) *a.y = norm <= 0 || over <= 1 ? norm : norm * over;
}

LOCKSTEP_KERNEL(finiteNorm, FiniteNormArguments) {
  if (threadIdx.x != 0) return;
  const float scaled = a.scale != nullptr ? *a.norm * *a.scale : *a.norm;
  *a.y = fabsf(*a.squares) < INFINITY ? scaled : -1.0f;
}

LOCKSTEP_KERNEL(lossScale, LossScaleArguments) {
  if (threadIdx.x != 0) return;
  const float scale = *a.scale, good = *a.good + 1, skipped = *a.skipped;
  const bool skips = *a.norm < 0, grows = !skips && good >= a.interval;
  *a.newScale = skips                                ? maximum(scale / a.factor, a.least)
                : grows && scale * a.factor > a.most ? a.most
                : grows                              ? scale * a.factor
                                                     : scale;
  *a.newGood = skips || grows ? 0.0f : good;
  *a.newSkipped = skips ? skipped + 1 : skipped;
}

LOCKSTEP_KERNEL(columnSums, ColumnSumArguments) {
  forStored(a.xType, [&](auto x) {
    a.four ? addColumns<4, decltype(x)>(a) : addColumns<1, decltype(x)>(a);
  });
}

}  // namespace lockstep::backends::cuda
