#include <cfloat>

#include "engine/backends/cuda/block.h"

namespace lockstep::backends::cuda {
namespace {

// The block's row of classes, read by all of its threads.
template <int kHeld, typename X, typename... T>
LOCKSTEP_DEVICE HeldRows<1, kHeld, X> blockRow(Index classes, const X* x, const T*... others) {
  return {classes, threadIdx.x, blockDim.x, x, x, others...};
}

// y[i] = value(x[i], i) for the block's row; y may be x.
template <typename X, typename Y, typename Value>
LOCKSTEP_DEVICE void mapRow(Index classes, const X* x, Y* y, Value value) {
  blockRow<4>(classes, x, y).pass([&]<int N>(Few<N>(&few)[1], unsigned at) {
    Few<N> out;
    LOCKSTEP_UNROLL
    for (int k = 0; k < N; ++k) out.x[k] = value(few[0].x[k], at + k);
    putValues(y + at, out);
  });
}

// The first pass finds the maximum and the sum of exponentials together: wherever the maximum
// rises, the sum so far is scaled down. A thread begins at a finite number, which −∞ is less than.
// NaN shows in the sum.
template <typename X>
LOCKSTEP_DEVICE void lossOfRow(const XentArguments& a) {
  const Index row = blockIdx.x;
  const X* x = static_cast<const X*>(a.x) + row * a.classes;
  float mine = -FLT_MAX, sum = 0;
  blockRow<kXentFours>(a.classes, x).pass([&]<int N>(Few<N>(&few)[1], unsigned) {
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
  if (threadIdx.x > 0) return;
  const float size = logf(sum);
  a.lseOut[row] = size + top;
  a.losses[row] = a.w[row] * (size + (top - valueOf(x[a.label[row]])));
}

template <typename X, typename Y>
LOCKSTEP_DEVICE void lossGradOfRow(const XentArguments& a) {
  const Index row = blockIdx.x, label = a.label[row];
  const float scale = a.w[row] * *a.dloss, lse = a.lse[row];
  mapRow(a.classes, static_cast<const X*>(a.x) + row * a.classes,
         static_cast<Y*>(a.y) + row * a.classes,
         [=](float x, unsigned i) { return (expf(x - lse) - (i == label ? 1.0f : 0.0f)) * scale; });
}

// The first maximum of the block's row.
template <typename X>
LOCKSTEP_DEVICE void correctOfRow(const XentArguments& a, Index row) {
  const X* x = static_cast<const X*>(a.x) + row * a.classes;
  Index best = 0;
  for (Index i = 1; i < a.classes; ++i)
    if (valueOf(x[i]) > valueOf(x[best])) best = i;
  a.losses[row] = best == a.label[row] ? a.w[row] : 0.0f;
}

template <typename X>
LOCKSTEP_DEVICE void maxOfRow(const DividedXentArguments& a) {
  const X* x = static_cast<const X*>(a.x) + blockIdx.x * a.classes;
  float top = valueOf(x[0]);
  blockRow<4>(a.classes, x).pass([&](auto& few, unsigned) {
    for (const float one : few[0].x) top = maximum(top, one);
  });
  top = blockMax(top);
  if (threadIdx.x == 0) a.y[blockIdx.x] = top;
}
template <typename X>
LOCKSTEP_DEVICE void termsOfRow(const DividedXentArguments& a) {
  const Index row = blockIdx.x, mine = a.label[row] - a.first;
  const X* x = static_cast<const X*>(a.x) + row * a.classes;
  const float m = a.m[row];
  float sum = 0;
  blockRow<4>(a.classes, x).pass([&](auto& few, unsigned) {
    for (const float one : few[0].x) sum += expf(one - m);
  });
  sum = blockSum(sum);
  if (threadIdx.x > 0) return;
  a.y[row] = sum;
  a.second[row] = mine >= 0 && mine < a.classes ? valueOf(x[mine]) - m : 0.0f;
}
template <typename X, typename Y>
LOCKSTEP_DEVICE void termsGradOfRow(const DividedXentArguments& a) {
  const Index row = blockIdx.x, mine = a.label[row] - a.first;
  const float ds = a.ds[row], dt = a.dt[row], m = a.m[row];
  mapRow(a.classes, static_cast<const X*>(a.x) + row * a.classes,
         static_cast<Y*>(a.dx) + row * a.classes,
         [=](float x, unsigned i) { return ds * expf(x - m) + (i == mine ? dt : 0.0f); });
}

}  // namespace

// One block per row: its loss, and log Σ exp.
LOCKSTEP_BOUNDED_KERNEL(softmaxXent, XentArguments, kMostThreads, 1) {
  forStored(a.xType, [&](auto x) { lossOfRow<decltype(x)>(a); });
}
LOCKSTEP_KERNEL(softmaxXentGrad, XentArguments) {
  forStored(a.xType, [&](auto x) {
    forStored(a.yType, [&](auto y) { lossGradOfRow<decltype(x), decltype(y)>(a); });
  });
}
// One thread per row: its weight if its first maximum is its label.
LOCKSTEP_KERNEL(correctRows, XentArguments) {
  forStored(a.xType, [&](auto x) {
    for (Index row = firstOf(); row < a.rows; row += strideOf()) correctOfRow<decltype(x)>(a, row);
  });
}

// One block per row.
LOCKSTEP_KERNEL(rowMax, DividedXentArguments) {
  forStored(a.xType, [&](auto x) { maxOfRow<decltype(x)>(a); });
}
LOCKSTEP_KERNEL(xentTerms, DividedXentArguments) {
  forStored(a.xType, [&](auto x) { termsOfRow<decltype(x)>(a); });
}
LOCKSTEP_KERNEL(xentTermsGrad, DividedXentArguments) {
  forStored(a.xType, [&](auto x) {
    forStored(a.dxType, [&](auto y) { termsGradOfRow<decltype(x), decltype(y)>(a); });
  });
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
