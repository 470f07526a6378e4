#include "engine/backends/cuda/block.h"

namespace lockstep::backends::cuda {

// One block per row: its loss, and its probabilities in y.
LOCKSTEP_KERNEL(softmaxXent, XentArguments) {
  const Index row = blockIdx.x;
  const float* x = a.x + row * a.classes;
  float* y = a.y + row * a.classes;
  float top = x[0];
  for (Index i = threadIdx.x; i < a.classes; i += blockDim.x) top = maximum(top, x[i]);
  top = blockMax(top);
  float sum = 0;
  for (Index i = threadIdx.x; i < a.classes; i += blockDim.x) sum += expf(x[i] - top);
  sum = blockSum(sum);
  if (threadIdx.x == 0) a.losses[row] = a.w[row] * (logf(sum) + top - x[a.label[row]]);
  __syncthreads();  // y may alias x
  for (Index i = threadIdx.x; i < a.classes; i += blockDim.x) y[i] = expf(x[i] - top) / sum;
}

// x holds the probabilities.
LOCKSTEP_KERNEL(softmaxXentGrad, XentArguments) {
  for (Index i = firstOf(); i < a.rows * a.classes; i += strideOf()) {
    const Index row = i / a.classes;
    a.y[i] = (a.x[i] - (i % a.classes == a.label[row] ? 1.0f : 0.0f)) * (a.w[row] * *a.dloss);
  }
}

// One thread per row: its weight if its first maximum is its label.
LOCKSTEP_KERNEL(correctRows, XentArguments) {
  for (Index row = firstOf(); row < a.rows; row += strideOf()) {
    const float* x = a.x + row * a.classes;
    Index best = 0;
    for (Index i = 1; i < a.classes; ++i)
      if (x[i] > x[best]) best = i;
    a.losses[row] = best == a.label[row] ? a.w[row] : 0.0f;
  }
}

// One block per row.
LOCKSTEP_KERNEL(rowMax, DividedXentArguments) {
  const float* x = a.x + blockIdx.x * a.classes;
  float top = x[0];
  for (Index i = threadIdx.x; i < a.classes; i += blockDim.x) top = maximum(top, x[i]);
  top = blockMax(top);
  if (threadIdx.x == 0) a.y[blockIdx.x] = top;
}
LOCKSTEP_KERNEL(xentTerms, DividedXentArguments) {
  const Index row = blockIdx.x, mine = a.label[row] - a.first;
  const float* x = a.x + row * a.classes;
  const float m = a.m[row];
  float sum = 0;
  for (Index i = threadIdx.x; i < a.classes; i += blockDim.x) sum += expf(x[i] - m);
  sum = blockSum(sum);
  if (threadIdx.x > 0) return;
  a.y[row] = sum;
  a.second[row] = mine >= 0 && mine < a.classes ? x[mine] - m : 0.0f;
}
LOCKSTEP_KERNEL(xentTermsGrad, DividedXentArguments) {
  for (Index i = firstOf(); i < a.rows * a.classes; i += strideOf()) {
    const Index row = i / a.classes;
    const float t = i % a.classes == a.label[row] - a.first ? a.dt[row] : 0.0f;
    a.y[i] = a.ds[row] * expf(a.x[i] - a.m[row]) + t;
  }
}
// One loss per row.
LOCKSTEP_KERNEL(xentLosses, DividedXentArguments) {
  for (Index row = firstOf(); row < a.rows; row += strideOf())
    a.y[row] = a.w[row] * (logf(a.s[row]) - a.t[row]);
}
LOCKSTEP_KERNEL(xentLossGrad, DividedXentArguments) {
  for (Index row = firstOf(); row < a.rows; row += strideOf()) {
    const float scaled = *a.dloss * a.w[row];
    a.y[row] = scaled / a.s[row];
    a.second[row] = -scaled;
  }
}

// In f64, so that scores fall into the same bins as on a host. NaN counts as the lowest score.
LOCKSTEP_KERNEL(scoreBins, HistogramArguments) {
  for (Index row = firstOf(); row < a.rows; row += strideOf()) {
    const double score = 1 / (1 + exp(-static_cast<double>(a.x[row])));
    const Index bin = score > 0 ? static_cast<Index>(score * static_cast<double>(a.bins)) : 0;
    a.bin[row] = static_cast<std::int32_t>(bin < a.bins ? bin : a.bins - 1);
  }
}
// One warp per bin.
LOCKSTEP_KERNEL(scoreHistogram, HistogramArguments) {
  const Index bin = firstOf() / kWarp;
  float hits = 0, others = 0;
  for (Index row = threadIdx.x % kWarp; bin < a.bins && row < a.rows; row += kWarp) {
    if (a.bin[row] != bin) continue;
    hits += a.w[row] * a.target[row];
    others += a.w[row] * (1 - a.target[row]);
  }
  for (int lane = kWarp / 2; lane > 0; lane /= 2) {
    hits += __shfl_xor_sync(~0u, hits, lane);
    others += __shfl_xor_sync(~0u, others, lane);
  }
  if (threadIdx.x % kWarp > 0 || bin >= a.bins) return;
  a.y[bin] = hits;
  a.y[a.bins + bin] = others;
}

LOCKSTEP_KERNEL(pairLosses, PairLossArguments) {
  for (Index i = firstOf(); i < a.n; i += strideOf()) {
    const float x = a.x[i], t = a.target[i];
    const float loss =
        a.binary ? fmaxf(x, 0.0f) + log1pf(expf(-fabsf(x))) - x * t : 0.5f * (x - t) * (x - t);
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
