#include "engine/backends/cuda/block.h"

namespace lockstep::backends::cuda {
namespace {

template <typename Y>
LOCKSTEP_DEVICE void normalizeRow(const LayerNormArguments& a, Index row) {
  Y* y = static_cast<Y*>(a.y) + row * a.channels;
  const float* x = a.x + row * a.channels;
  const auto n = static_cast<float>(a.channels);
  HeldRows<1, 8> all(a.channels, threadIdx.x % kWarp, kWarp, x, x, y, a.gain, a.bias);
  float sum = 0, squares = 0;
  all.pass([&](auto& few, unsigned) {
    for (const float x : few[0].x) sum += x;
  });
  const float mean = warpSum(sum) / n;
  all.pass([&](auto& few, unsigned) {
    for (const float x : few[0].x) squares += (x - mean) * (x - mean);
  });
  const float rstd = 1 / sqrtf(warpSum(squares) / n + a.epsilon);
  all.pass([&]<int N>(Few<N>(&few)[1], unsigned at) {
    const Few<N> gain = fewAt<N>(a.gain + at), bias = fewAt<N>(a.bias + at);
    Few<N> out;
    LOCKSTEP_UNROLL
    for (int k = 0; k < N; ++k) out.x[k] = (few[0].x[k] - mean) * rstd * gain.x[k] + bias.x[k];
    putValues(y + at, out);
  });
  if (threadIdx.x % kWarp > 0) return;
  a.mean[row] = mean;
  a.rstd[row] = rstd;
}

template <typename Dy>
LOCKSTEP_DEVICE void normGradOfRow(const LayerNormGradArguments& a, Index row) {
  const Dy* dy = static_cast<const Dy*>(a.dy) + row * a.channels;
  float* dx = a.dx + row * a.channels;
  const float mean = a.mean[row], rstd = a.rstd[row];
  const auto n = static_cast<float>(a.channels);
  HeldRows<2, 8, Dy, float> all(a.channels, threadIdx.x % kWarp, kWarp, dy, a.x + row * a.channels,
                                dx, a.gain);
  float sum = 0, product = 0;
  all.pass([&]<int N>(Few<N>(&few)[2], unsigned at) {
    const Few<N> gain = fewAt<N>(a.gain + at);
    LOCKSTEP_UNROLL
    for (int k = 0; k < N; ++k) {
      const float g = few[0].x[k] * gain.x[k];
      sum += g;
      product += g * (few[1].x[k] - mean) * rstd;
    }
  });
  sum = warpSum(sum) / n;
  product = warpSum(product) / n;
  all.pass([&]<int N>(Few<N>(&few)[2], unsigned at) {
    const Few<N> gain = fewAt<N>(a.gain + at);
    Few<N> out;
    LOCKSTEP_UNROLL
    for (int k = 0; k < N; ++k)
      out.x[k] = rstd * (few[0].x[k] * gain.x[k] - sum - (few[1].x[k] - mean) * rstd * product);
    putFew(dx + at, out);
  });
}

template <int N, typename Dy>
LOCKSTEP_DEVICE void layerNormWeightSums(const LayerNormWeightGradArguments& a) {
  const auto* dys = static_cast<const Dy*>(a.dy);
  const Index c = (static_cast<Index>(blockIdx.x) * kWarp + threadIdx.x % kWarp) * N,
              part = blockIdx.y, last = a.rows * (part + 1) / a.parts;
  float sums[2 * N] = {};
  for (Index r = a.rows * part / a.parts + threadIdx.x / kWarp; c < a.channels && r < last;
       r += kThreads / kWarp) {
    const Few<N> dy = valuesAt<N>(dys + r * a.channels + c), x = fewAt<N>(a.x + r * a.channels + c);
    const float mean = a.mean[r], rstd = a.rstd[r];
    for (int k = 0; k < N; ++k) {
      sums[k] += dy.x[k] * (x.x[k] - mean) * rstd;
      sums[N + k] += dy.x[k];
    }
  }
  laneSums(sums);
  if (threadIdx.x >= kWarp || c >= a.channels) return;
  for (int k = 0; k < N; ++k) {
    a.dgain[part * a.channels + c + k] = sums[k];
    a.dbias[part * a.channels + c + k] = sums[N + k];
  }
}

}  // namespace

LOCKSTEP_KERNEL(layerNorm, LayerNormArguments) {
  const Index row = firstOf() / kWarp;
  if (row < a.rows) forStored(a.yType, [&](auto y) { normalizeRow<decltype(y)>(a, row); });
}
LOCKSTEP_KERNEL(layerNormGrad, LayerNormGradArguments) {
  const Index row = firstOf() / kWarp;
  if (row < a.rows) forStored(a.dyType, [&](auto dy) { normGradOfRow<decltype(dy)>(a, row); });
}
LOCKSTEP_KERNEL(layerNormWeightGrad, LayerNormWeightGradArguments) {
  forStored(a.dyType, [&](auto dy) {
    a.four ? layerNormWeightSums<4, decltype(dy)>(a) : layerNormWeightSums<1, decltype(dy)>(a);
  });
}

namespace {

// A thread's range of batch norm's rows × channels: N channels from c on, in rows [first, last) by
// `step`.
template <int N>
struct Share {
  Index group, c, first, last;
  unsigned step;
  LOCKSTEP_DEVICE explicit Share(const BatchNormArguments& a) {
    const Index rows = a.samples / a.groups * a.pixels;
    const unsigned part = blockIdx.y % a.parts;
    group = blockIdx.y / a.parts;
    c = (static_cast<Index>(blockIdx.x) * a.lanes + threadIdx.x % a.lanes) * N;
    step = kThreads / a.lanes;
    first = group * rows + rows * part / a.parts + threadIdx.x / a.lanes;
    last = c < a.channels ? group * rows + rows * (part + 1) / a.parts : 0;
  }
  LOCKSTEP_DEVICE Index at(const BatchNormArguments& a, int i) const {
    return group * a.channels + c + i;
  }
};
// Precondition: fewer than 2³¹ rows.
LOCKSTEP_DEVICE unsigned sampleOf(const BatchNormArguments& a, Index row) {
  return static_cast<unsigned>(row) / static_cast<unsigned>(a.pixels);
}

template <int N>
LOCKSTEP_DEVICE void moments(const BatchNormArguments& a) {
  const Share<N> s(a);
  float sums[2 * N + 1] = {}, shift[N] = {};
  for (int i = 0; i < N && s.c < a.channels; ++i) shift[i] = a.shift[s.c + i];
  for (Index r = s.first; r < s.last; r += s.step) {
    const float w = a.w[sampleOf(a, r)];
    const Few<N> x = fewAt<N>(a.x + r * a.channels + s.c);
    for (int i = 0; i < N; ++i) {
      const float d = x.x[i] - shift[i];
      sums[i] += w * d;
      sums[N + i] += w * d * d;
    }
    sums[2 * N] += w;
  }
  laneSums(sums, a.lanes);
  if (threadIdx.x >= a.lanes || s.c >= a.channels) return;
  float* row = a.y + blockIdx.y * (1 + 2 * a.channels);
  if (s.c == 0) row[0] = sums[2 * N];
  for (int i = 0; i < N; ++i) {
    row[1 + s.c + i] = sums[i];
    row[1 + a.channels + s.c + i] = sums[N + i];
  }
}

template <int N>
LOCKSTEP_DEVICE void normalize(const BatchNormArguments& a) {
  const Share<N> s(a);
  if (s.c >= a.channels) return;
  float mean[N], scale[N], bias[N];
  for (int i = 0; i < N; ++i) {
    mean[i] = a.mean[s.at(a, i)];
    scale[i] = a.gain[s.c + i] / sqrtf(a.variance[s.at(a, i)] + a.epsilon);
    bias[i] = a.bias[s.c + i];
  }
  for (Index r = s.first; r < s.last; r += s.step) {
    Few<N> x = fewAt<N>(a.x + r * a.channels + s.c);
    for (int i = 0; i < N; ++i) x.x[i] = (x.x[i] - mean[i]) * scale[i] + bias[i];
    *reinterpret_cast<Few<N>*>(a.y + r * a.channels + s.c) = x;
  }
}

template <int N>
LOCKSTEP_DEVICE void gradientSums(const BatchNormArguments& a) {
  const Share<N> s(a);
  float sums[2 * N] = {}, mean[N] = {};
  for (int i = 0; i < N && s.c < a.channels; ++i) mean[i] = a.mean[s.at(a, i)];
  for (Index r = s.first; r < s.last; r += s.step) {
    const Few<N> x = fewAt<N>(a.x + r * a.channels + s.c),
                 dy = fewAt<N>(a.dy + r * a.channels + s.c);
    for (int i = 0; i < N; ++i) {
      sums[i] += dy.x[i] * (x.x[i] - mean[i]);
      sums[N + i] += dy.x[i];
    }
  }
  laneSums(sums, a.lanes);
  if (threadIdx.x >= a.lanes || s.c >= a.channels) return;
  float* row = a.third + blockIdx.y * 2 * a.channels;
  for (int i = 0; i < N; ++i) {
    row[s.c + i] = sums[i] / sqrtf(a.variance[s.at(a, i)] + a.epsilon);
    row[a.channels + s.c + i] = sums[N + i];
  }
}

template <int N>
LOCKSTEP_DEVICE void normalizeGrad(const BatchNormArguments& a) {
  const Share<N> s(a);
  if (s.c >= a.channels) return;
  const float n = a.moments[s.group * (1 + 2 * a.channels)], share = n <= 0 ? 0.0f : 1 / n;
  float mean[N], inverse[N], gain[N], product[N], sum[N];
  for (int i = 0; i < N; ++i) {
    mean[i] = a.mean[s.at(a, i)];
    inverse[i] = 1 / sqrtf(a.variance[s.at(a, i)] + a.epsilon);
    gain[i] = a.gain[s.c + i];
    product[i] = share * a.sums[s.group * 2 * a.channels + s.c + i];
    sum[i] = share * a.sums[(s.group * 2 + 1) * a.channels + s.c + i];
  }
  for (Index r = s.first; r < s.last; r += s.step) {
    const float w = a.w[sampleOf(a, r)];
    const Few<N> x = fewAt<N>(a.x + r * a.channels + s.c);
    Few<N> dy = fewAt<N>(a.dy + r * a.channels + s.c);
    for (int i = 0; i < N; ++i) {
      const float normal = (x.x[i] - mean[i]) * inverse[i];
      dy.x[i] = gain[i] * inverse[i] * (dy.x[i] - w * (sum[i] + normal * product[i]));
    }
    *reinterpret_cast<Few<N>*>(a.y + r * a.channels + s.c) = dy;
  }
}

}  // namespace

// One result per part of each group.
LOCKSTEP_KERNEL(batchMoments, BatchNormArguments) { a.four ? moments<4>(a) : moments<1>(a); }

LOCKSTEP_KERNEL(batchStatistics, BatchNormArguments) {
  for (Index c = firstOf(); c < a.channels; c += strideOf()) {
    float counts = 0, means = 0, variances = 0;
    for (Index g = 0; g < a.groups; ++g) {
      const float* row = a.moments + g * (1 + 2 * a.channels);
      const float n = row[0], d = n <= 0 ? 0.0f : row[1 + c] / n;
      const float mean = a.shift[c] + d;
      const float variance = n <= 0 ? 1.0f : maximum(0.0f, row[1 + a.channels + c] / n - d * d);
      a.y[g * a.channels + c] = mean;
      a.second[g * a.channels + c] = variance;
      counts += n;
      means += n * mean;
      variances += n > 1 ? n * variance * (n / (n - 1)) : n * variance;
    }
    if (c == 0) a.third[0] = counts;
    a.third[1 + c] = means;
    a.third[1 + a.channels + c] = variances;
  }
}

LOCKSTEP_KERNEL(batchNorm, BatchNormArguments) { a.four ? normalize<4>(a) : normalize<1>(a); }

// Writes the sums of each part of each group to `third`; the next kernel adds the groups up.
LOCKSTEP_KERNEL(batchNormSums, BatchNormArguments) {
  a.four ? gradientSums<4>(a) : gradientSums<1>(a);
}
LOCKSTEP_KERNEL(batchNormWeightGrad, BatchNormArguments) {
  for (Index c = firstOf(); c < a.channels; c += strideOf()) {
    float gain = 0, bias = 0;
    for (Index g = 0; g < a.groups; ++g) {
      gain += a.third[g * 2 * a.channels + c];
      bias += a.third[(g * 2 + 1) * a.channels + c];
    }
    a.y[c] = gain;
    a.second[c] = bias;
  }
}

LOCKSTEP_KERNEL(batchNormGrad, BatchNormArguments) {
  a.four ? normalizeGrad<4>(a) : normalizeGrad<1>(a);
}

LOCKSTEP_KERNEL(runningStatistics, RunningArguments) {
  const float share = a.sums[0] <= 0 ? 0.0f : 1 / a.sums[0], kept = share <= 0 ? 1.0f : a.momentum;
  for (Index c = firstOf(); c < a.channels; c += strideOf()) {
    a.newMean[c] = kept * a.mean[c] + (1 - kept) * share * a.sums[1 + c];
    a.newVariance[c] = kept * a.variance[c] + (1 - kept) * share * a.sums[1 + a.channels + c];
  }
}

}  // namespace lockstep::backends::cuda
