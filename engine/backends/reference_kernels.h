// Loops of the reference backend. T is f32 or f64; accumulation is in f64. An output may alias the
// input that the op's in-place row names.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>

#include "engine/backends/kernel.h"
#include "engine/base/float16.h"

namespace lockstep::backends::reference {

namespace elementwise {

inline double add(double a, double b) { return a + b; }
// Propagates NaN; where the output is NaN its gradient passes through.
inline double relu(double x) { return x <= 0 ? 0.0 : x; }
inline double reluGrad(double dy, double y) { return y <= 0 ? 0.0 : dy; }
inline double tanh(double x) { return std::tanh(x); }
inline double tanhGrad(double dy, double y) { return dy * (1 - y * y); }

// Hendrycks and Gimpel, "Gaussian error linear units", the tanh form.
inline constexpr double kGeluScale = 0.79788456080286535588;  // √(2/π)
inline constexpr double kGeluCubic = 0.044715;
inline double gelu(double x) {
  return 0.5 * x * (1 + std::tanh(kGeluScale * (x + kGeluCubic * x * x * x)));
}
inline double geluGrad(double dy, double x) {
  const double t = std::tanh(kGeluScale * (x + kGeluCubic * x * x * x));
  const double dt = (1 - t * t) * kGeluScale * (1 + 3 * kGeluCubic * x * x);
  return dy * (0.5 * (1 + t) + 0.5 * x * dt);
}

}  // namespace elementwise

// Whether x replaces the running maximum `before`; the first NaN does.
template <typename T>
bool exceeds(T x, T before) {
  return x > before || (std::isnan(x) && !std::isnan(before));
}
// Returns the first maximum of n ≥ 1 elements, NaN if any is NaN.
template <typename T>
T largest(std::int64_t n, const T* x) {
  T top = x[0];
  for (std::int64_t i = 1; i < n; ++i)
    if (exceeds(x[i], top)) top = x[i];
  return top;
}

// Adjacent outputs are computed together, at most kTogether, so that inner loops are contiguous.
// Each output remains one f64 sum in the order of its definition: grouping changes no bit.
inline constexpr std::int64_t kTogether = 64;

// Calls f(first, count) for the groups of n neighbours.
template <typename F>
void forGroups(std::int64_t n, F f) {
  for (std::int64_t first = 0; first < n; first += kTogether)
    f(first, std::min(kTogether, n - first));
}

// sums[i] += x·row[i].
template <typename T>
void addScaled(std::int64_t n, T x, const T* __restrict row, double* __restrict sums) {
  const double factor = static_cast<double>(x);
  for (std::int64_t i = 0; i < n; ++i) sums[i] += factor * static_cast<double>(row[i]);
}

// y[n,o] = bias[o] + Σ_k a[n,k]·b[k,o], k ascending. X is the operand type, here and in
// convolutions.
template <typename X, typename T>
void matmul(const MatmulShape& s, const X* a, const X* b, const T* bias, T* y) {
  for (std::int64_t n = 0; n < s.n; ++n)
    forGroups(s.o, [&](std::int64_t first, std::int64_t count) {
      double sums[kTogether];
      for (std::int64_t i = 0; i < count; ++i)
        sums[i] = bias ? static_cast<double>(bias[first + i]) : 0.0;
      const auto at = [&](std::int64_t k) { return a[s.ta ? k * s.n + n : n * s.k + k]; };
      if (s.tb) {
        for (std::int64_t i = 0; i < count; ++i)
          for (std::int64_t k = 0; k < s.k; ++k)
            sums[i] += static_cast<double>(at(k)) * static_cast<double>(b[(first + i) * s.k + k]);
      } else {
        for (std::int64_t k = 0; k < s.k; ++k) addScaled(count, at(k), b + k * s.o + first, sums);
      }
      for (std::int64_t i = 0; i < count; ++i)
        y[n * s.o + first + i] = static_cast<T>(s.relu ? elementwise::relu(sums[i]) : sums[i]);
    });
}

template <typename T>
void reduceRows(std::int64_t rows, std::int64_t columns, const T* x, T* y) {
  for (std::int64_t c = 0; c < columns; ++c) {
    double sum = 0;
    for (std::int64_t r = 0; r < rows; ++r) sum += static_cast<double>(x[r * columns + c]);
    y[c] = static_cast<T>(sum);
  }
}

struct Range {
  std::int64_t begin, end;
};
// Returns the filter taps (of `size`) that lie inside an image of `length`, for output `at`.
inline Range tapsInside(std::int64_t at, std::int64_t stride, std::int64_t pad, std::int64_t size,
                        std::int64_t length) {
  const std::int64_t origin = at * stride - pad;
  return {std::max<std::int64_t>(0, -origin), std::min(size, length - origin)};
}
// Returns the outputs (of `count`) for which tap `tap` lies inside the image.
inline Range outputsInside(std::int64_t tap, std::int64_t stride, std::int64_t pad,
                           std::int64_t length, std::int64_t count) {
  const std::int64_t before = std::max<std::int64_t>(0, pad - tap);
  const std::int64_t room = length + pad - tap;
  return {(before + stride - 1) / stride,
          room > 0 ? std::min(count, (room + stride - 1) / stride) : 0};
}

// y[b,oy,ox,o] = bias[o] + Σ_ky Σ_kx Σ_c x[b,iy,ix,c]·w[ky,kx,c,o], iy = oy·stride − pad + ky, ix
// alike; all ascending, ky outermost.
template <typename X, typename T>
void conv2d(const ConvShape& s, const X* x, const X* w, const T* bias, T* y) {
  for (std::int64_t b = 0; b < s.b; ++b)
    for (std::int64_t oy = 0; oy < s.oh; ++oy)
      for (std::int64_t ox = 0; ox < s.ow; ++ox, y += s.o) {
        const Range rows = tapsInside(oy, s.stride, s.pad, s.kh, s.h);
        const Range columns = tapsInside(ox, s.stride, s.pad, s.kw, s.w);
        forGroups(s.o, [&](std::int64_t first, std::int64_t count) {
          double sums[kTogether];
          for (std::int64_t i = 0; i < count; ++i)
            sums[i] = bias ? static_cast<double>(bias[first + i]) : 0.0;
          for (std::int64_t ky = rows.begin; ky < rows.end; ++ky)
            for (std::int64_t kx = columns.begin; kx < columns.end; ++kx) {
              const std::int64_t iy = oy * s.stride - s.pad + ky, ix = ox * s.stride - s.pad + kx;
              const X* pixel = x + ((b * s.h + iy) * s.w + ix) * s.c;
              const X* tap = w + (ky * s.kw + kx) * s.c * s.o + first;
              for (std::int64_t c = 0; c < s.c; ++c)
                addScaled(count, pixel[c], tap + c * s.o, sums);
            }
          for (std::int64_t i = 0; i < count; ++i)
            y[first + i] = static_cast<T>(s.relu ? elementwise::relu(sums[i]) : sums[i]);
        });
      }
}

// For every input pixel, gathers the gradients of the output pixels that read it.
template <typename X, typename T>
void conv2dInputGrad(const ConvShape& s, const X* dy, const X* w, T* dx) {
  for (std::int64_t b = 0; b < s.b; ++b)
    for (std::int64_t iy = 0; iy < s.h; ++iy)
      for (std::int64_t ix = 0; ix < s.w; ++ix)
        for (std::int64_t c = 0; c < s.c; ++c) {
          double sum = 0;
          for (std::int64_t ky = 0; ky < s.kh; ++ky)
            for (std::int64_t kx = 0; kx < s.kw; ++kx) {
              const std::int64_t top = iy + s.pad - ky, left = ix + s.pad - kx;
              if (top < 0 || left < 0 || top % s.stride != 0 || left % s.stride != 0) continue;
              const std::int64_t oy = top / s.stride, ox = left / s.stride;
              if (oy >= s.oh || ox >= s.ow) continue;
              const X* g = dy + ((b * s.oh + oy) * s.ow + ox) * s.o;
              const X* row = w + ((ky * s.kw + kx) * s.c + c) * s.o;
              for (std::int64_t o = 0; o < s.o; ++o)
                sum += static_cast<double>(g[o]) * static_cast<double>(row[o]);
            }
          dx[((b * s.h + iy) * s.w + ix) * s.c + c] = static_cast<T>(sum);
        }
}

// dw[ky,kx,c,o] = Σ_b Σ_oy Σ_ox x[b,iy,ix,c]·dy[b,oy,ox,o], iy and ix as in conv2d; all ascending,
// b outermost.
template <typename X, typename T>
void conv2dWeightGrad(const ConvShape& s, const X* x, const X* dy, T* dw) {
  for (std::int64_t ky = 0; ky < s.kh; ++ky)
    for (std::int64_t kx = 0; kx < s.kw; ++kx) {
      const Range rows = outputsInside(ky, s.stride, s.pad, s.h, s.oh);
      const Range columns = outputsInside(kx, s.stride, s.pad, s.w, s.ow);
      for (std::int64_t c = 0; c < s.c; ++c, dw += s.o)
        forGroups(s.o, [&](std::int64_t first, std::int64_t count) {
          double sums[kTogether] = {};
          for (std::int64_t b = 0; b < s.b; ++b)
            for (std::int64_t oy = rows.begin; oy < rows.end; ++oy)
              for (std::int64_t ox = columns.begin; ox < columns.end; ++ox) {
                const std::int64_t iy = oy * s.stride - s.pad + ky, ix = ox * s.stride - s.pad + kx;
                addScaled(count, x[((b * s.h + iy) * s.w + ix) * s.c + c],
                          dy + ((b * s.oh + oy) * s.ow + ox) * s.o + first, sums);
              }
          for (std::int64_t i = 0; i < count; ++i) dw[first + i] = static_cast<T>(sums[i]);
        });
    }
}

// Calls f(index of the output element, index of its first maximum in x); the first NaN counts as
// the maximum.
template <typename T, typename F>
void forMaxima(const PoolShape& s, const T* x, F f) {
  std::int64_t i = 0;
  for (std::int64_t b = 0; b < s.b; ++b)
    for (std::int64_t oy = 0; oy < s.oh; ++oy)
      for (std::int64_t ox = 0; ox < s.ow; ++ox)
        for (std::int64_t c = 0; c < s.c; ++c, ++i) {
          std::int64_t best = -1;
          for (std::int64_t ky = 0; ky < s.size; ++ky)
            for (std::int64_t kx = 0; kx < s.size; ++kx) {
              const std::int64_t at =
                  ((b * s.h + oy * s.stride + ky) * s.w + ox * s.stride + kx) * s.c + c;
              if (best < 0 || exceeds(x[at], x[best])) best = at;
            }
          f(i, best);
        }
}

template <typename T>
void maxPool2d(const PoolShape& s, const T* x, T* y) {
  forMaxima(s, x, [&](std::int64_t i, std::int64_t best) { y[i] = x[best]; });
}

template <typename T>
void maxPool2dGrad(const PoolShape& s, const T* x, const T* dy, T* dx) {
  std::fill_n(dx, s.b * s.h * s.w * s.c, T{0});
  forMaxima(s, x, [&](std::int64_t i, std::int64_t best) {
    if (!s.relu || !(x[best] <= T{0})) dx[best] += dy[i];
  });
}

template <typename T>
void softmaxXent(std::int64_t rows, std::int64_t k, const T* logits, const std::int32_t* label,
                 const T* w, T* loss, T* lse) {
  double total = 0;
  for (std::int64_t r = 0; r < rows; ++r) {
    const T* x = logits + r * k;
    const double top = static_cast<double>(largest(k, x));
    double sum = 0;
    for (std::int64_t i = 0; i < k; ++i) sum += std::exp(static_cast<double>(x[i]) - top);
    lse[r] = static_cast<T>(std::log(sum) + top);
    total += static_cast<double>(w[r]) * (std::log(sum) + top - static_cast<double>(x[label[r]]));
  }
  loss[0] = static_cast<T>(total);
}

template <typename T>
void softmaxXentGrad(std::int64_t rows, std::int64_t k, const T* logits, const std::int32_t* label,
                     const T* w, const T* lse, const T* dloss, T* dx) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const double scale = static_cast<double>(w[r]) * static_cast<double>(dloss[0]);
    for (std::int64_t i = 0; i < k; ++i) {
      const double p =
          std::exp(static_cast<double>(logits[r * k + i]) - static_cast<double>(lse[r]));
      dx[r * k + i] = static_cast<T>((p - (i == label[r] ? 1.0 : 0.0)) * scale);
    }
  }
}

template <typename T>
void mseLoss(std::int64_t rows, std::int64_t k, const T* y, const T* target, const T* w, T* loss) {
  double total = 0;
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t i = 0; i < k; ++i) {
      const double d = static_cast<double>(y[r * k + i]) - static_cast<double>(target[r * k + i]);
      total += 0.5 * static_cast<double>(w[r]) * d * d;
    }
  loss[0] = static_cast<T>(total);
}

template <typename T>
void mseLossGrad(std::int64_t rows, std::int64_t k, const T* y, const T* target, const T* w,
                 const T* dloss, T* dy) {
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t i = 0; i < k; ++i)
      dy[r * k + i] = (y[r * k + i] - target[r * k + i]) * w[r] * dloss[0];
}

// log(1 + e^z) − t·z, without overflow.
template <typename T>
void binaryXent(std::int64_t rows, std::int64_t k, const T* logits, const T* target, const T* w,
                T* loss) {
  double total = 0;
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t i = 0; i < k; ++i) {
      const double z = static_cast<double>(logits[r * k + i]);
      total += static_cast<double>(w[r]) * (std::max(z, 0.0) + std::log1p(std::exp(-std::abs(z))) -
                                            z * static_cast<double>(target[r * k + i]));
    }
  loss[0] = static_cast<T>(total);
}

inline double sigmoid(double z) { return 1 / (1 + std::exp(-z)); }

template <typename T>
void binaryXentGrad(std::int64_t rows, std::int64_t k, const T* logits, const T* target, const T* w,
                    const T* dloss, T* dx) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const double scale = static_cast<double>(w[r]) * static_cast<double>(dloss[0]);
    for (std::int64_t i = 0; i < k; ++i)
      dx[r * k + i] = static_cast<T>(scale * (sigmoid(static_cast<double>(logits[r * k + i])) -
                                              static_cast<double>(target[r * k + i])));
  }
}

template <typename T>
void scoreHistogram(std::int64_t rows, std::int64_t bins, const T* logits, const T* target,
                    const T* w, T* out) {
  std::fill_n(out, 2 * bins, T{0});
  for (std::int64_t r = 0; r < rows; ++r) {
    const double score = sigmoid(static_cast<double>(logits[r]));
    // NaN counts as the least.
    const auto bin =
        score > 0 ? std::min(static_cast<std::int64_t>(score * static_cast<double>(bins)), bins - 1)
                  : std::int64_t{0};
    out[bin] += w[r] * target[r];
    out[bins + bin] += w[r] * (T{1} - target[r]);
  }
}

template <typename T>
void countCorrect(std::int64_t rows, std::int64_t k, const T* logits, const std::int32_t* label,
                  const T* w, T* out) {
  double total = 0;
  for (std::int64_t r = 0; r < rows; ++r) {
    const T* x = logits + r * k;
    if (std::max_element(x, x + k) - x == label[r]) total += static_cast<double>(w[r]);
  }
  out[0] = static_cast<T>(total);
}

// Factor of a gradient that is summed over samples; a step without samples changes nothing.
inline double inverseNorm(double norm) { return norm <= 0 ? 0.0 : 1 / norm; }

template <typename T>
struct SgdOperands {
  const T *p, *g, *v, *norm, *lr;
  T *pOut, *vOut;
};
template <typename T>
void sgd(std::int64_t n, const SgdOperands<T>& o, double momentum, double decay) {
  const double scale = inverseNorm(static_cast<double>(o.norm[0]));
  const double lr = static_cast<double>(o.lr[0]);
  for (std::int64_t i = 0; i < n; ++i) {
    const double p = static_cast<double>(o.p[i]);
    const double v =
        momentum * static_cast<double>(o.v[i]) + static_cast<double>(o.g[i]) * scale + decay * p;
    o.vOut[i] = static_cast<T>(v);
    o.pOut[i] = static_cast<T>(p - lr * v);
  }
}

template <typename T>
struct AdagradOperands {
  const T *p, *g, *s;
  T *pOut, *sOut;
};
template <typename T>
void adagrad(std::int64_t n, const AdagradOperands<T>& o, double scale, double lr, double decay,
             double epsilon) {
  for (std::int64_t i = 0; i < n; ++i) {
    const double p = static_cast<double>(o.p[i]);
    const double g = static_cast<double>(o.g[i]) * scale + decay * p;
    const double s = static_cast<double>(o.s[i]) + g * g;
    o.sOut[i] = static_cast<T>(s);
    o.pOut[i] = static_cast<T>(p - (g == 0 ? 0.0 : lr * g / (std::sqrt(s) + epsilon)));
  }
}

// Kingma and Ba, "Adam", with the weight decay decoupled (Loshchilov and Hutter, "AdamW"):
// p' = p − lr·(m̂/(√v̂ + ε) + λp).
template <typename T>
struct AdamOperands {
  const T *p, *g, *m, *v, *norm, *lr, *t;
  T *pOut, *mOut, *vOut;
};
template <typename T>
void adam(std::int64_t n, const AdamOperands<T>& o, const AdamOptions& a) {
  const double scale = inverseNorm(static_cast<double>(o.norm[0]));
  const double lr = static_cast<double>(o.lr[0]), t = static_cast<double>(o.t[0]);
  const double correct1 = 1 - std::pow(a.beta1, t), correct2 = 1 - std::pow(a.beta2, t);
  for (std::int64_t i = 0; i < n; ++i) {
    const double p = static_cast<double>(o.p[i]);
    const double g = static_cast<double>(o.g[i]) * scale;
    const double m = a.beta1 * static_cast<double>(o.m[i]) + (1 - a.beta1) * g;
    const double v = a.beta2 * static_cast<double>(o.v[i]) + (1 - a.beta2) * g * g;
    o.mOut[i] = static_cast<T>(m);
    o.vOut[i] = static_cast<T>(v);
    o.pOut[i] = static_cast<T>(
        p - lr * (m / correct1 / (std::sqrt(v / correct2) + a.epsilon) + a.weightDecay * p));
  }
}

}  // namespace lockstep::backends::reference
