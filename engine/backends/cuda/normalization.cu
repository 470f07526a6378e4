#include "engine/backends/cuda/block.h"

namespace lockstep::backends::cuda {

// A block a row.
LOCKSTEP_KERNEL(layerNorm, LayerNormArguments) {
  const Index row = blockIdx.x;
  const float* x = a.x + row * a.channels;
  const auto n = static_cast<float>(a.channels);
  float sum = 0, squares = 0;
  for (Index c = threadIdx.x; c < a.channels; c += blockDim.x) sum += x[c];
  const float mean = blockSum(sum) / n;
  for (Index c = threadIdx.x; c < a.channels; c += blockDim.x) squares += (x[c] - mean) * (x[c] - mean);
  const float rstd = 1 / sqrtf(blockSum(squares) / n + a.epsilon);
  for (Index c = threadIdx.x; c < a.channels; c += blockDim.x)
    a.y[row * a.channels + c] = (x[c] - mean) * rstd * a.gain[c] + a.bias[c];
  if (threadIdx.x > 0) return;
  a.mean[row] = mean;
  a.rstd[row] = rstd;
}

LOCKSTEP_KERNEL(layerNormGrad, LayerNormGradArguments) {
  const Index row = blockIdx.x;
  const float *dy = a.dy + row * a.channels, *x = a.x + row * a.channels;
  const float mean = a.mean[row], rstd = a.rstd[row];
  const auto n = static_cast<float>(a.channels);
  float sum = 0, product = 0;
  for (Index c = threadIdx.x; c < a.channels; c += blockDim.x) {
    const float g = dy[c] * a.gain[c];
    sum += g;
    product += g * (x[c] - mean) * rstd;
  }
  sum = blockSum(sum) / n;
  product = blockSum(product) / n;
  for (Index c = threadIdx.x; c < a.channels; c += blockDim.x)
    a.dx[row * a.channels + c] = rstd * (dy[c] * a.gain[c] - sum - (x[c] - mean) * rstd * product);
}

LOCKSTEP_KERNEL(layerNormWeightGrad, LayerNormWeightGradArguments) {
  const Index column = static_cast<Index>(blockIdx.x) * kWarp + threadIdx.x % kWarp, part = blockIdx.y;
  const Index last = a.rows * (part + 1) / a.parts;
  float gain = 0, bias = 0;
  for (Index r = a.rows * part / a.parts + threadIdx.x / kWarp; column < a.channels && r < last; r += kThreads / kWarp) {
    const float dy = a.dy[r * a.channels + column];
    gain += dy * (a.x[r * a.channels + column] - a.mean[r]) * a.rstd[r];
    bias += dy;
  }
  gain = laneSum(gain);
  bias = laneSum(bias);
  if (threadIdx.x >= kWarp || column >= a.channels) return;
  a.dgain[part * a.channels + column] = gain;
  a.dbias[part * a.channels + column] = bias;
}

// Batch norm's sums: a block is kWarp channels (x) of one group (y).
LOCKSTEP_KERNEL(batchMoments, BatchNormArguments) {
  const Index c = static_cast<Index>(blockIdx.x) * kWarp + threadIdx.x % kWarp, g = blockIdx.y;
  const Index samples = a.samples / a.groups, rows = samples * a.pixels;
  float count = 0, sum = 0, squares = 0;
  for (Index r = threadIdx.x / kWarp; c < a.channels && r < rows; r += kThreads / kWarp) {
    const float w = a.w[g * samples + r / a.pixels];
    const float d = a.x[(g * rows + r) * a.channels + c] - a.shift[c];
    count += w;
    sum += w * d;
    squares += w * d * d;
  }
  count = laneSum(count);
  sum = laneSum(sum);
  squares = laneSum(squares);
  if (threadIdx.x >= kWarp || c >= a.channels) return;
  float* row = a.y + g * (1 + 2 * a.channels);
  if (c == 0) row[0] = count;
  row[1 + c] = sum;
  row[1 + a.channels + c] = squares;
}

LOCKSTEP_KERNEL(batchStatistics, BatchNormArguments) {
  for (Index c = firstOf(); c < a.channels; c += strideOf()) {
    float counts = 0, means = 0, variances = 0;
    for (Index g = 0; g < a.groups; ++g) {
      const float* row = a.moments + g * (1 + 2 * a.channels);
      const float n = row[0], d = n > 0 ? row[1 + c] / n : 0.0f;
      const float mean = a.shift[c] + d;
      const float variance = n > 0 ? fmaxf(0.0f, row[1 + a.channels + c] / n - d * d) : 1.0f;
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

LOCKSTEP_KERNEL(batchNorm, BatchNormArguments) {
  const Index group = a.samples / a.groups * a.pixels * a.channels;
  for (Index i = firstOf(); i < a.samples * a.pixels * a.channels; i += strideOf()) {
    const Index c = i % a.channels, at = i / group * a.channels + c;
    a.y[i] = (a.x[i] - a.mean[at]) * (a.gain[c] / sqrtf(a.variance[at] + a.epsilon)) + a.bias[c];
  }
}

// Of each group into `third`; the groups are added up by the next.
LOCKSTEP_KERNEL(batchNormSums, BatchNormArguments) {
  const Index c = static_cast<Index>(blockIdx.x) * kWarp + threadIdx.x % kWarp, g = blockIdx.y;
  const Index rows = a.samples / a.groups * a.pixels;
  const float mean = c < a.channels ? a.mean[g * a.channels + c] : 0.0f;
  float product = 0, sum = 0;
  for (Index r = threadIdx.x / kWarp; c < a.channels && r < rows; r += kThreads / kWarp) {
    const Index i = (g * rows + r) * a.channels + c;
    product += a.dy[i] * (a.x[i] - mean);
    sum += a.dy[i];
  }
  product = laneSum(product);
  sum = laneSum(sum);
  if (threadIdx.x >= kWarp || c >= a.channels) return;
  a.third[g * 2 * a.channels + c] = product / sqrtf(a.variance[g * a.channels + c] + a.epsilon);
  a.third[(g * 2 + 1) * a.channels + c] = sum;
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
  const Index samples = a.samples / a.groups;
  for (Index i = firstOf(); i < a.samples * a.pixels * a.channels; i += strideOf()) {
    const Index c = i % a.channels, b = i / (a.pixels * a.channels), g = b / samples, at = g * a.channels + c;
    const float n = a.moments[g * (1 + 2 * a.channels)], share = n > 0 ? 1 / n : 0.0f;
    const float inverse = 1 / sqrtf(a.variance[at] + a.epsilon), normal = (a.x[i] - a.mean[at]) * inverse;
    const float through = a.w[b] * share * (a.sums[(g * 2 + 1) * a.channels + c] + normal * a.sums[g * 2 * a.channels + c]);
    a.y[i] = a.gain[c] * inverse * (a.dy[i] - through);
  }
}

LOCKSTEP_KERNEL(runningStatistics, RunningArguments) {
  const float share = a.sums[0] > 0 ? 1 / a.sums[0] : 0.0f, kept = share > 0 ? a.momentum : 1.0f;
  for (Index c = firstOf(); c < a.channels; c += strideOf()) {
    a.newMean[c] = kept * a.mean[c] + (1 - kept) * share * a.sums[1 + c];
    a.newVariance[c] = kept * a.variance[c] + (1 - kept) * share * a.sums[1 + a.channels + c];
  }
}

}  // namespace lockstep::backends::cuda
