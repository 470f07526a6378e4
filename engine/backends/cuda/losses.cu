#include <cfloat>

#include "engine/backends/cuda/block.h"

namespace lockstep::backends::cuda {
namespace {

// The block's row of classes, read by all of its threads.
template <int kHeld, typename... T>
LOCKSTEP_DEVICE HeldRows<1, kHeld> blockRow(Index classes, const float* x, const T*... others) {
  return {classes, threadIdx.x, blockDim.x, {x}, others...};
}

// y[i] = value(x[i], i) for the block's row; y may be x.
template <typename Value>
LOCKSTEP_DEVICE void mapRow(Index classes, const float* x, float* y, Value value) {
  blockRow<4>(classes, x, y).pass([&]<int N>(Few<N>(&few)[1], unsigned at) {
    Few<N> out;
    LOCKSTEP_UNROLL
    for (int k = 0; k < N; ++k) out.x[k] = value(few[0].x[k], at + k);
    putFew(y + at, out);
  });
}

}  // namespace

// One block per row: its loss, and its probabilities in y. The first pass finds the maximum and the
// sum of exponentials together: wherever the maximum rises, the sum so far is scaled down. A thread
// begins at a finite number, which −∞ is less than. NaN shows in the sum.
LOCKSTEP_BOUNDED_KERNEL(softmaxXent, XentArguments, kMostThreads, 1) {
  const Index row = blockIdx.x;
  const float* x = a.x + row * a.classes;
  float* y = a.y + row * a.classes;
  auto all = blockRow<kXentFours>(a.classes, x, y);
  float mine = -FLT_MAX, sum = 0;
  all.pass([&]<int N>(Few<N>(&few)[1], unsigned) {
    float top = mine, exponentials = 0;
    LOCKSTEP_UNROLL
    for (int k = 0; k < N; ++k) top = fmaxf(top, few[0].x[k]);
    LOCKSTEP_UNROLL
    for (int k = 0; k < N; ++k) exponentials += expf(few[0].x[k] - top);
    sum = sum * expf(mine - top) + exponentials;
    mine = top;
  });
  const float top = blockMax(mine);
  sum = blockSum(sum * expf(mine - top));
  if (threadIdx.x == 0) a.losses[row] = a.w[row] * (logf(sum) + top - x[a.label[row]]);
  const float factor = 1 / sum;
  all.pass([&]<int N>(Few<N>(&few)[1], unsigned at) {
    Few<N> out;
    LOCKSTEP_UNROLL
    for (int k = 0; k < N; ++k) out.x[k] = expf(few[0].x[k] - top) * factor;
    putFew(y + at, out);
  });
}

// One block per row; x holds the probabilities.
LOCKSTEP_KERNEL(softmaxXentGrad, XentArguments) {
  const Index row = blockIdx.x, label = a.label[row];
  const float scale = a.w[row] * *a.dloss;
  mapRow(a.classes, a.x + row * a.classes, a.y + row * a.classes,
         [=](float p, unsigned i) { return (p - (i == label ? 1.0f : 0.0f)) * scale; });
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
  blockRow<4>(a.classes, x).pass([&](auto& few, unsigned) {
    for (const float one : few[0].x) top = maximum(top, one);
  });
  top = blockMax(top);
  if (threadIdx.x == 0) a.y[blockIdx.x] = top;
}
LOCKSTEP_KERNEL(xentTerms, DividedXentArguments) {
  const Index row = blockIdx.x, mine = a.label[row] - a.first;
  const float* x = a.x + row * a.classes;
  const float m = a.m[row];
  float sum = 0;
  blockRow<4>(a.classes, x).pass([&](auto& few, unsigned) {
    for (const float one : few[0].x) sum += expf(one - m);
  });
  sum = blockSum(sum);
  if (threadIdx.x > 0) return;
  a.y[row] = sum;
  a.second[row] = mine >= 0 && mine < a.classes ? x[mine] - m : 0.0f;
}
LOCKSTEP_KERNEL(xentTermsGrad, DividedXentArguments) {
  const Index row = blockIdx.x, mine = a.label[row] - a.first;
  const float ds = a.ds[row], dt = a.dt[row], m = a.m[row];
  mapRow(a.classes, a.x + row * a.classes, a.y + row * a.classes,
         [=](float x, unsigned i) { return ds * expf(x - m) + (i == mine ? dt : 0.0f); });
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
