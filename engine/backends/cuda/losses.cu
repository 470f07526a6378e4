#include "engine/backends/cuda/block.h"

namespace lockstep::backends::cuda {

// A block a row: its loss, and in y its probabilities.
LOCKSTEP_KERNEL(softmaxXent, XentArguments) {
  const Index row = blockIdx.x;
  const float* x = a.x + row * a.classes;
  float* y = a.y + row * a.classes;
  float top = x[0];
  for (Index i = threadIdx.x; i < a.classes; i += blockDim.x) top = fmaxf(top, x[i]);
  top = blockMax(top);
  float sum = 0;
  for (Index i = threadIdx.x; i < a.classes; i += blockDim.x) sum += expf(x[i] - top);
  sum = blockSum(sum);
  if (threadIdx.x == 0) a.losses[row] = a.w[row] * (logf(sum) + top - x[a.label[row]]);
  __syncthreads();  // y may be x
  for (Index i = threadIdx.x; i < a.classes; i += blockDim.x) y[i] = expf(x[i] - top) / sum;
}

// x is the probabilities.
LOCKSTEP_KERNEL(softmaxXentGrad, XentArguments) {
  for (Index i = firstOf(); i < a.rows * a.classes; i += strideOf()) {
    const Index row = i / a.classes;
    a.y[i] = (a.x[i] - (i % a.classes == a.label[row] ? 1.0f : 0.0f)) * (a.w[row] * *a.dloss);
  }
}

// A thread a row: its weight where its first maximum is its label.
LOCKSTEP_KERNEL(correctRows, XentArguments) {
  for (Index row = firstOf(); row < a.rows; row += strideOf()) {
    const float* x = a.x + row * a.classes;
    Index best = 0;
    for (Index i = 1; i < a.classes; ++i)
      if (x[i] > x[best]) best = i;
    a.losses[row] = best == a.label[row] ? a.w[row] : 0.0f;
  }
}

LOCKSTEP_KERNEL(pairLosses, PairLossArguments) {
  for (Index i = firstOf(); i < a.n; i += strideOf()) {
    const float x = a.x[i], t = a.target[i];
    const float loss = a.binary ? fmaxf(x, 0.0f) + log1pf(expf(-fabsf(x))) - x * t : 0.5f * (x - t) * (x - t);
    a.y[i] = a.w[i / a.columns] * loss;
  }
}

LOCKSTEP_KERNEL(pairLossGrads, PairLossArguments) {
  for (Index i = firstOf(); i < a.n; i += strideOf()) {
    const float x = a.binary ? 1 / (1 + expf(-a.x[i])) : a.x[i];
    a.y[i] = (x - a.target[i]) * (a.w[i / a.columns] * *a.dloss);
  }
}

}  // namespace lockstep::backends::cuda
