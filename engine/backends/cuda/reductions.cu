#include "engine/backends/cuda/block.h"

namespace lockstep::backends::cuda {

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
  const Index column = static_cast<Index>(blockIdx.x) * kWarp + threadIdx.x % kWarp,
              part = blockIdx.y;
  const Index last = a.rows * (part + 1) / a.parts;
  float sum[1] = {};
  for (Index r = a.rows * part / a.parts + threadIdx.x / kWarp; column < a.columns && r < last;
       r += kThreads / kWarp)
    sum[0] += a.x[r * a.columns + column];
  laneSums(sum);
  if (threadIdx.x < kWarp && column < a.columns) a.y[part * a.columns + column] = sum[0];
}

}  // namespace lockstep::backends::cuda
