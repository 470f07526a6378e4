#include "engine/backends/cuda/block.h"

namespace lockstep::backends::cuda {

LOCKSTEP_KERNEL(sums, SumArguments) {
  float sum = 0;
  for (Index i = firstOf(); i < a.n; i += strideOf()) sum += a.squares ? a.x[i] * a.x[i] : a.x[i];
  sum = blockSum(sum);
  if (threadIdx.x == 0) a.y[blockIdx.x] = sum;
}

LOCKSTEP_KERNEL(clipNorm, ClipNormArguments) {
  const float norm = *a.norm;
  if (threadIdx.x == 0) *a.y = norm > 0 ? norm * fmaxf(1.0f, sqrtf(*a.squares) / (norm * a.limit)) : 0.0f;
}

LOCKSTEP_KERNEL(columnSums, ColumnSumArguments) {
  const Index column = static_cast<Index>(blockIdx.x) * kWarp + threadIdx.x % kWarp, part = blockIdx.y;
  const Index last = a.rows * (part + 1) / a.parts;
  float sum = 0;
  for (Index r = a.rows * part / a.parts + threadIdx.x / kWarp; column < a.columns && r < last; r += kThreads / kWarp)
    sum += a.x[r * a.columns + column];
  sum = laneSum(sum);
  if (threadIdx.x < kWarp && column < a.columns) a.y[part * a.columns + column] = sum;
}

}  // namespace lockstep::backends::cuda
