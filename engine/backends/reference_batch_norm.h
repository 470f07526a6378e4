// Reference loops of batch norm and of mean pooling over pixels. T is f32 or f64; accumulation is
// in f64. Formulas: see the op table (ir/ops.h).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "engine/backends/kernel.h"
#include "engine/backends/reference_kernels.h"

namespace lockstep::backends::reference {

template <typename T>
void meanPool(std::int64_t samples, std::int64_t pixels, std::int64_t channels, const T* x, T* y) {
  for (std::int64_t b = 0; b < samples; ++b)
    for (std::int64_t c = 0; c < channels; ++c) {
      double sum = 0;
      for (std::int64_t p = 0; p < pixels; ++p)
        sum += static_cast<double>(x[(b * pixels + p) * channels + c]);
      y[b * channels + c] = static_cast<T>(sum / static_cast<double>(pixels));
    }
}
template <typename T>
void meanPoolGrad(std::int64_t samples, std::int64_t pixels, std::int64_t channels, const T* dy,
                  T* dx) {
  for (std::int64_t b = 0; b < samples; ++b)
    for (std::int64_t p = 0; p < pixels; ++p)
      for (std::int64_t c = 0; c < channels; ++c)
        dx[(b * pixels + p) * channels + c] =
            static_cast<T>(static_cast<double>(dy[b * channels + c]) / static_cast<double>(pixels));
}

// Calls f(group, channel).
template <typename F>
void forGroupChannels(const BatchNormShape& s, F f) {
  for (std::int64_t g = 0; g < s.groups; ++g)
    for (std::int64_t c = 0; c < s.channels; ++c) f(g, c);
}
// Calls f(sample, element) for all samples and pixels of a group and channel.
template <typename F>
void forElements(const BatchNormShape& s, std::int64_t g, std::int64_t c, F f) {
  for (std::int64_t b = g * s.groupSamples(); b < (g + 1) * s.groupSamples(); ++b)
    for (std::int64_t p = 0; p < s.pixels; ++p) f(b, (b * s.pixels + p) * s.channels + c);
}

template <typename T>
void batchMoments(const BatchNormShape& s, const T* x, const T* w, const T* shift, T* moments) {
  const std::int64_t width = 1 + 2 * s.channels;
  forGroupChannels(s, [&](std::int64_t g, std::int64_t c) {
    double count = 0, sum = 0, squares = 0;
    forElements(s, g, c, [&](std::int64_t b, std::int64_t i) {
      const double weight = static_cast<double>(w[b]);
      const double d = static_cast<double>(x[i]) - static_cast<double>(shift[c]);
      count += weight;
      sum += weight * d;
      squares += weight * d * d;
    });
    moments[g * width] = static_cast<T>(count);
    moments[g * width + 1 + c] = static_cast<T>(sum);
    moments[g * width + 1 + s.channels + c] = static_cast<T>(squares);
  });
}

template <typename T>
void batchStatistics(std::int64_t groups, std::int64_t channels, const T* moments, const T* shift,
                     T* mean, T* variance, T* sums) {
  double counts = 0;
  for (std::int64_t g = 0; g < groups; ++g)
    counts += static_cast<double>(moments[g * (1 + 2 * channels)]);
  sums[0] = static_cast<T>(counts);
  for (std::int64_t c = 0; c < channels; ++c) {
    double means = 0, variances = 0;
    for (std::int64_t g = 0; g < groups; ++g) {
      const T* row = moments + g * (1 + 2 * channels);
      const double n = static_cast<double>(row[0]);
      const double d = n <= 0 ? 0.0 : static_cast<double>(row[1 + c]) / n;
      const double m = static_cast<double>(shift[c]) + d;
      const double squares = static_cast<double>(row[1 + channels + c]);
      const double v = n <= 0 ? 1.0 : elementwise::relu(squares / n - d * d);
      mean[g * channels + c] = static_cast<T>(m);
      variance[g * channels + c] = static_cast<T>(v);
      means += n * m;
      variances += n > 1 ? n * v * (n / (n - 1)) : n * v;
    }
    sums[1 + c] = static_cast<T>(means);
    sums[1 + channels + c] = static_cast<T>(variances);
  }
}

template <typename T>
void batchNorm(const BatchNormShape& s, double epsilon, const T* x, const T* gain, const T* bias,
               const T* mean, const T* variance, T* y) {
  forGroupChannels(s, [&](std::int64_t g, std::int64_t c) {
    const double m = static_cast<double>(mean[g * s.channels + c]);
    const double scale = static_cast<double>(gain[c]) /
                         std::sqrt(static_cast<double>(variance[g * s.channels + c]) + epsilon);
    forElements(s, g, c, [&](std::int64_t, std::int64_t i) {
      y[i] = static_cast<T>((static_cast<double>(x[i]) - m) * scale + static_cast<double>(bias[c]));
    });
  });
}

template <typename T>
void batchNormWeightGrad(const BatchNormShape& s, double epsilon, const T* dy, const T* x,
                         const T* mean, const T* variance, T* dgain, T* dbias, T* sums) {
  for (std::int64_t c = 0; c < s.channels; ++c) {
    double gain = 0, bias = 0;
    for (std::int64_t g = 0; g < s.groups; ++g) {
      const double m = static_cast<double>(mean[g * s.channels + c]);
      const double inverse =
          1 / std::sqrt(static_cast<double>(variance[g * s.channels + c]) + epsilon);
      double product = 0, sum = 0;
      forElements(s, g, c, [&](std::int64_t, std::int64_t i) {
        product += static_cast<double>(dy[i]) * (static_cast<double>(x[i]) - m);
        sum += static_cast<double>(dy[i]);
      });
      product *= inverse;
      sums[g * 2 * s.channels + c] = static_cast<T>(product);
      sums[(g * 2 + 1) * s.channels + c] = static_cast<T>(sum);
      gain += product;
      bias += sum;
    }
    dgain[c] = static_cast<T>(gain);
    dbias[c] = static_cast<T>(bias);
  }
}

template <typename T>
struct BatchNormGradOperands {
  const T *dy, *x, *w, *gain, *moments, *mean, *variance, *sums;
  T* dx;
};
template <typename T>
void batchNormGrad(const BatchNormShape& s, double epsilon, const BatchNormGradOperands<T>& o) {
  forGroupChannels(s, [&](std::int64_t g, std::int64_t c) {
    const double share = inverseNorm(static_cast<double>(o.moments[g * (1 + 2 * s.channels)]));
    const double m = static_cast<double>(o.mean[g * s.channels + c]);
    const double inverse =
        1 / std::sqrt(static_cast<double>(o.variance[g * s.channels + c]) + epsilon);
    const double product = static_cast<double>(o.sums[g * 2 * s.channels + c]);
    const double sum = static_cast<double>(o.sums[(g * 2 + 1) * s.channels + c]);
    forElements(s, g, c, [&](std::int64_t b, std::int64_t i) {
      const double normal = (static_cast<double>(o.x[i]) - m) * inverse;
      const double through = static_cast<double>(o.w[b]) * share * (sum + normal * product);
      o.dx[i] = static_cast<T>(static_cast<double>(o.gain[c]) * inverse *
                               (static_cast<double>(o.dy[i]) - through));
    });
  });
}

template <typename T>
void runningStatistics(std::int64_t channels, double momentum, const T* mean, const T* variance,
                       const T* sums, T* newMean, T* newVariance) {
  const double share = inverseNorm(static_cast<double>(sums[0]));
  const double kept = share <= 0 ? 1.0 : momentum;
  const auto mixed = [&](T old, T sum) {
    return static_cast<T>(kept * static_cast<double>(old) +
                          (1 - kept) * share * static_cast<double>(sum));
  };
  for (std::int64_t c = 0; c < channels; ++c) {
    newMean[c] = mixed(mean[c], sums[1 + c]);
    newVariance[c] = mixed(variance[c], sums[1 + channels + c]);
  }
}

}  // namespace lockstep::backends::reference
