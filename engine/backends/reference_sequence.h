// Reference loops of sequence ops. T is f32 or f64; accumulation is in f64.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "engine/backends/kernel.h"

namespace lockstep::backends::reference {

template <typename T>
void embedding(std::int64_t rows, std::int64_t channels, std::int64_t first,
               std::int64_t vocabulary, const T* table, const std::int32_t* ids, T* y) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t row = ids[r] - first;
    if (row >= 0 && row < vocabulary)
      std::copy_n(table + row * channels, channels, y + r * channels);
    else
      std::fill_n(y + r * channels, channels, T{0});
  }
}

// Adds rows in order, so that each row of the table has one summation order.
template <typename T>
void embeddingGrad(std::int64_t rows, std::int64_t channels, std::int64_t first,
                   std::int64_t vocabulary, const std::int32_t* ids, const T* dy, T* dtable) {
  std::fill_n(dtable, vocabulary * channels, T{0});
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t row = ids[r] - first;
    if (row < 0 || row >= vocabulary) continue;
    for (std::int64_t c = 0; c < channels; ++c) dtable[row * channels + c] += dy[r * channels + c];
  }
}

template <typename T>
void layerNorm(std::int64_t rows, std::int64_t channels, double epsilon, const T* x, const T* gain,
               const T* bias, T* y, T* mean, T* rstd) {
  const auto n = static_cast<double>(channels);
  for (std::int64_t r = 0; r < rows; ++r) {
    const T* in = x + r * channels;
    double sum = 0, squares = 0;
    for (std::int64_t c = 0; c < channels; ++c) sum += static_cast<double>(in[c]);
    const double m = sum / n;
    for (std::int64_t c = 0; c < channels; ++c) {
      const double d = static_cast<double>(in[c]) - m;
      squares += d * d;
    }
    const double s = 1 / std::sqrt(squares / n + epsilon);
    for (std::int64_t c = 0; c < channels; ++c)
      y[r * channels + c] =
          static_cast<T>((static_cast<double>(in[c]) - m) * s * static_cast<double>(gain[c]) +
                         static_cast<double>(bias[c]));
    mean[r] = static_cast<T>(m);
    rstd[r] = static_cast<T>(s);
  }
}

// With x̂ = (x − mean)·rstd and g = dy·gain: dx = rstd·(g − mean(g) − x̂·mean(g·x̂)).
template <typename T>
void layerNormGrad(std::int64_t rows, std::int64_t channels, const T* dy, const T* x, const T* gain,
                   const T* mean, const T* rstd, T* dx) {
  const auto n = static_cast<double>(channels);
  for (std::int64_t r = 0; r < rows; ++r) {
    const double m = static_cast<double>(mean[r]), s = static_cast<double>(rstd[r]);
    double sum = 0, product = 0;
    for (std::int64_t c = 0; c < channels; ++c) {
      const std::int64_t i = r * channels + c;
      const double g = static_cast<double>(dy[i]) * static_cast<double>(gain[c]);
      sum += g;
      product += g * (static_cast<double>(x[i]) - m) * s;
    }
    for (std::int64_t c = 0; c < channels; ++c) {
      const std::int64_t i = r * channels + c;
      const double g = static_cast<double>(dy[i]) * static_cast<double>(gain[c]);
      const double normal = (static_cast<double>(x[i]) - m) * s;
      dx[i] = static_cast<T>(s * (g - sum / n - normal * product / n));
    }
  }
}

template <typename T>
void layerNormWeightGrad(std::int64_t rows, std::int64_t channels, const T* dy, const T* x,
                         const T* mean, const T* rstd, T* dgain, T* dbias) {
  for (std::int64_t c = 0; c < channels; ++c) {
    double gain = 0, bias = 0;
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::int64_t i = r * channels + c;
      const double g = static_cast<double>(dy[i]);
      gain += g * (static_cast<double>(x[i]) - static_cast<double>(mean[r])) *
              static_cast<double>(rstd[r]);
      bias += g;
    }
    dgain[c] = static_cast<T>(gain);
    dbias[c] = static_cast<T>(bias);
  }
}

template <typename T>
double dot(std::int64_t n, const T* a, const T* b) {
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

// Calls f(q, k, v, y, lse) for each sample and head with the indices of its first token's first
// channel. Token strides: 3·heads·head for q, k and v; heads·head for y; heads for lse.
template <typename F>
void forHeads(const AttentionShape& s, F f) {
  for (std::int64_t b = 0; b < s.samples; ++b)
    for (std::int64_t h = 0; h < s.heads; ++h) {
      const std::int64_t first = b * s.tokens * s.qkvStride() + h * 3 * s.head;
      f(first, first + s.head, first + 2 * s.head, b * s.tokens * s.yStride() + h * s.head,
        b * s.tokens * s.heads + h);
    }
}

template <typename T>
void attention(const AttentionShape& s, const T* qkv, T* y, T* lse, double* scores) {
  const double scale = 1 / std::sqrt(static_cast<double>(s.head));
  forHeads(s, [&](std::int64_t q, std::int64_t k, std::int64_t v, std::int64_t out,
                  std::int64_t sums) {
    for (std::int64_t t = 0; t < s.tokens; ++t) {
      const std::int64_t seen = s.causal ? t + 1 : s.tokens;
      double top = -std::numeric_limits<double>::infinity(), sum = 0;
      for (std::int64_t u = 0; u < seen; ++u) {
        scores[u] = scale * dot(s.head, qkv + q + t * s.qkvStride(), qkv + k + u * s.qkvStride());
        top = std::max(top, scores[u]);
      }
      for (std::int64_t u = 0; u < seen; ++u) sum += scores[u] = std::exp(scores[u] - top);
      for (std::int64_t c = 0; c < s.head; ++c) {
        double value = 0;
        for (std::int64_t u = 0; u < seen; ++u)
          value += scores[u] * static_cast<double>(qkv[v + u * s.qkvStride() + c]);
        y[out + t * s.yStride() + c] = static_cast<T>(value / sum);
      }
      lse[sums + t * s.heads] = static_cast<T>(top + std::log(sum));
    }
  });
}

// With p = softmax and dp = dy·vᵀ: ds = p·(dp − dy·y), where dy·y equals the row sum of p·dp.
template <typename T>
void attentionGrad(const AttentionShape& s, const T* dy, const T* qkv, const T* y, const T* lse,
                   T* dqkv) {
  const double scale = 1 / std::sqrt(static_cast<double>(s.head));
  std::fill_n(dqkv, s.samples * s.tokens * s.qkvStride(), T{0});
  forHeads(
      s, [&](std::int64_t q, std::int64_t k, std::int64_t v, std::int64_t out, std::int64_t sums) {
        for (std::int64_t t = 0; t < s.tokens; ++t) {
          const std::int64_t row = q + t * s.qkvStride(), at = out + t * s.yStride();
          const double offset = dot(s.head, dy + at, y + at);
          for (std::int64_t u = 0; u < (s.causal ? t + 1 : s.tokens); ++u) {
            const std::int64_t key = k + u * s.qkvStride(), value = v + u * s.qkvStride();
            const double p = std::exp(scale * dot(s.head, qkv + row, qkv + key) -
                                      static_cast<double>(lse[sums + t * s.heads]));
            const double ds = p * (dot(s.head, dy + at, qkv + value) - offset) * scale;
            for (std::int64_t c = 0; c < s.head; ++c) {
              dqkv[row + c] += static_cast<T>(ds * static_cast<double>(qkv[key + c]));
              dqkv[key + c] += static_cast<T>(ds * static_cast<double>(qkv[row + c]));
              dqkv[value + c] += static_cast<T>(p * static_cast<double>(dy[at + c]));
            }
          }
        }
      });
}

}  // namespace lockstep::backends::reference
