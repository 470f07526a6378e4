// Kernel bodies, compiled by each kernels_<isa>.cc with that instruction set's flags. Everything
// has internal linkage, and no library header with inline code is included: otherwise the linker
// could pick a function compiled for AVX-512 on a machine without it.
#pragma once

#include <cstdint>

#include "engine/backends/cpu/compression_body.h"
#include "engine/backends/cpu/gemm_body.h"
#include "engine/backends/cpu/kernels.h"
#include "engine/backends/cpu/vectors.h"

namespace lockstep::backends::cpu {
namespace {

// ---- pooling -------------------------------------------------------------------------------

// kSize 0: the window size is s.size.
template <int kSize>
void maxPoolAs(const Pool& s, const float* x, float* y) {
  const std::int64_t size = kSize > 0 ? kSize : s.size;
  for (std::int64_t b = 0; b < s.b; ++b)
    for (std::int64_t oy = 0; oy < s.oh; ++oy)
      for (std::int64_t ox = 0; ox < s.ow; ++ox, y += s.c) {
        const float* corner = x + ((b * s.h + oy * s.stride) * s.w + ox * s.stride) * s.c;
        forVectors(s.c, [=](std::int64_t c, auto n) {
          Vec top = loadPart(corner + c, n);
          for (std::int64_t ky = 0; ky < size; ++ky)
            for (std::int64_t kx = 0; kx < size; ++kx)
              top = maximum(loadPart(corner + (ky * s.w + kx) * s.c + c, n), top);
          storePart(y + c, top, n);
        });
      }
}

template <int kSize, bool kOverlapping>
void maxPoolGradAs(const Pool& s, const float* x, const float* y, const float* dy, float* dx) {
  const std::int64_t size = kSize > 0 ? kSize : s.size;
  for (std::int64_t b = 0; b < s.b; ++b)
    for (std::int64_t oy = 0; oy < s.oh; ++oy)
      for (std::int64_t ox = 0; ox < s.ow; ++ox, y += s.c, dy += s.c) {
        const std::int64_t corner = ((b * s.h + oy * s.stride) * s.w + ox * s.stride) * s.c;
        forVectors(s.c, [=](std::int64_t c, auto n) {
          const Vec top = loadPart(y + c, n), all = loadPart(dy + c, n);
          const Vec given = s.relu ? where(top <= Vec{}, Vec{}, all) : all;
          const Mask noNumber = top != top;  // windows whose maximum is their first NaN
          Mask open = Mask{} - 1;            // lanes whose first maximum has not been found
          for (std::int64_t ky = 0; ky < size; ++ky)
            for (std::int64_t kx = 0; kx < size; ++kx) {
              const std::int64_t at = corner + (ky * s.w + kx) * s.c + c;
              const Vec here = loadPart(x + at, n);
              const Mask hit = ((here == top) | ((here != here) & noNumber)) & open;
              open &= ~hit;
              Vec grad = where(hit, given, Vec{});
              if constexpr (kOverlapping) grad += loadPart(dx + at, n);
              storePart(dx + at, grad, n);
            }
        });
      }
}

void maxPool(const Pool& s, const float* x, float* y) {
  s.size == 2 ? maxPoolAs<2>(s, x, y) : maxPoolAs<0>(s, x, y);
}

void maxPoolGrad(const Pool& s, const float* x, const float* y, const float* dy, float* dx) {
  const bool covered = s.stride == s.size && s.oh * s.stride == s.h && s.ow * s.stride == s.w;
  if (!covered)
    for (std::int64_t i = 0; i < s.b * s.h * s.w * s.c; ++i) dx[i] = 0;
  if (s.stride < s.size)
    maxPoolGradAs<0, true>(s, x, y, dy, dx);
  else if (s.size == 2)
    maxPoolGradAs<2, false>(s, x, y, dy, dx);
  else
    maxPoolGradAs<0, false>(s, x, y, dy, dx);
}

// ---- rows ----------------------------------------------------------------------------------

// Sums blocks of rows first and then the blocks' sums: the error grows with the square root.
constexpr std::int64_t kRowsPerBlock = 256;
void reduceRows(std::int64_t rows, std::int64_t cols, std::int64_t stride, const float* x,
                float* y) {
  for (std::int64_t c = 0; c < cols; c += 2 * kWidth) {
    const std::int64_t n0 = least(kWidth, cols - c);
    const std::int64_t n1 = least(kWidth, cols - c - n0);
    Vec total0{}, total1{};
    for (std::int64_t r0 = 0; r0 < rows; r0 += kRowsPerBlock) {
      const std::int64_t end = least(rows, r0 + kRowsPerBlock);
      Vec even0{}, even1{}, odd0{}, odd1{};
      std::int64_t r = r0;
      for (; r + 1 < end; r += 2) {
        const float* p = x + r * stride + c;
        even0 += loadPart(p, n0);
        odd0 += loadPart(p + stride, n0);
        if (n1 == 0) continue;
        even1 += loadPart(p + kWidth, n1);
        odd1 += loadPart(p + stride + kWidth, n1);
      }
      if (r < end) {
        const float* p = x + r * stride + c;
        even0 += loadPart(p, n0);
        if (n1 > 0) even1 += loadPart(p + kWidth, n1);
      }
      total0 += even0 + odd0;
      total1 += even1 + odd1;
    }
    storePart(y + c, total0, n0);
    if (n1 > 0) storePart(y + c + kWidth, total1, n1);
  }
}

void biasAdd(std::int64_t rows, std::int64_t cols, const float* x, const float* b, float* y) {
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < cols; c += kWidth) {
      const std::int64_t n = least(kWidth, cols - c);
      storePart(y + r * cols + c, loadPart(x + r * cols + c, n) + loadPart(b + c, n), n);
    }
}

// ---- elementwise ---------------------------------------------------------------------------

void relu(std::int64_t n, const float* x, float* y) {
  forVectors(n,
             [=](std::int64_t i, auto m) { storePart(y + i, rectified(loadPart(x + i, m)), m); });
}
void reluGrad(std::int64_t n, const float* dy, const float* y, float* dx) {
  forVectors(n, [=](std::int64_t i, auto m) {
    const Mask off = loadPart(y + i, m) <= Vec{};
    storePart(dx + i, where(off, Vec{}, loadPart(dy + i, m)), m);
  });
}
void tanhGrad(std::int64_t n, const float* dy, const float* y, float* dx) {
  forVectors(n, [=](std::int64_t i, auto m) {
    const Vec v = loadPart(y + i, m);
    storePart(dx + i, loadPart(dy + i, m) * (1.0f - v * v), m);
  });
}
void add(std::int64_t n, const float* a, const float* b, float* y) {
  forVectors(n, [=](std::int64_t i, auto m) {
    storePart(y + i, loadPart(a + i, m) + loadPart(b + i, m), m);
  });
}
void scale(std::int64_t n, const float* x, float factor, float* y) {
  forVectors(n, [=](std::int64_t i, auto m) { storePart(y + i, loadPart(x + i, m) * factor, m); });
}
void castU8(std::int64_t n, const std::uint8_t* x, float factor, float* y) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i)
    y[i] = static_cast<float>(static_cast<std::int32_t>(x[i])) * factor;
}

// ---- transcendental ------------------------------------------------------------------------

// The first n lanes, `rest` in the others.
inline Vec loadOr(const float* p, std::int64_t n, float rest) {
  return n == kWidth ? load(p) : where(firstLanes(n), loadPart(p, n), splat(rest));
}

// x = n·ln 2 + r with ln 2 in two parts (Cody and Waite), a polynomial of r, times 2ⁿ; the
// coefficients are those of Cephes' expf.
inline Vec exponential(Vec x) {
  x = smaller(splat(88.0f), larger(splat(-87.0f), x));  // operand order preserves NaN
  // 1.5·2²³: adding it rounds to an integer
  constexpr float kRound = 12582912.0f;
  const Vec n = (x * 1.44269504f + kRound) - kRound;
  const Vec r = x - n * 0.693359375f + n * 2.12194440e-4f;
  // Evaluated in pairs to shorten the dependency chain.
  const Vec square = r * r;
  const Vec p = ((r * 1.9875691500e-4f + 1.3981999507e-3f) * square +
                 (r * 8.3334519073e-3f + 4.1665795894e-2f)) *
                    square +
                (r * 1.6666665459e-1f + 5.0000001201e-1f);
  const Vec y = p * square + (r + 1.0f);
  const Mask power = (__builtin_convertvector(n, Mask) + 127) << 23;
  return y * reinterpret_cast<const Vec&>(power);
}
// 1 / (1 + e^-x)
inline Vec logistic(Vec x) { return 1.0f / (1.0f + exponential(-x)); }

// The tanh form, ½x(1 + tanh u) = x·logistic(2u), u = √(2/π)(x + 0.044715x³).
constexpr float kGeluScale = 2 * 0.797884561f, kGeluCubic = 0.044715f * kGeluScale;

void gelu(std::int64_t n, const float* x, float* y) {
  forVectors(n, [=](std::int64_t i, auto lanes) {
    const Vec v = loadPart(x + i, lanes);
    storePart(y + i, v * logistic(v * (kGeluScale + kGeluCubic * (v * v))), lanes);
  });
}
void geluGrad(std::int64_t n, const float* dy, const float* x, float* dx) {
  forVectors(n, [=](std::int64_t i, auto lanes) {
    const Vec v = loadPart(x + i, lanes), square = v * v;
    // 1 − s = e·s
    const Vec e = exponential(-v * (kGeluScale + kGeluCubic * square)), s = 1.0f / (1.0f + e);
    const Vec slope = s + v * (e * s * s) * (kGeluScale + 3.0f * kGeluCubic * square);
    storePart(dx + i, loadPart(dy + i, lanes) * slope, lanes);
  });
}

// The maximum that exponentials are scaled by; ignores NaN, which the exponentials propagate.
float largest(std::int64_t n, const float* x) {
  Vec top = splat(x[0]);
  forVectors(n, [&](std::int64_t i, auto lanes) { top = larger(top, loadOr(x + i, lanes, x[0])); });
  return largestOf(top);
}
float expRow(std::int64_t n, const float* x, float scale, float top, float* y) {
  Vec sum{};
  forVectors(n, [&](std::int64_t i, auto lanes) {
    const Vec e = exponential(loadPart(x + i, lanes) * scale - top);
    storePart(y + i, e, lanes);
    sum += lanes == kWidth ? e : where(firstLanes(lanes), e, Vec{});
  });
  return total(sum);
}

// Σ e^(x − top).
float expSum(std::int64_t n, const float* x, float top) {
  Vec sum{};
  forVectors(n, [&](std::int64_t i, auto lanes) {
    const Vec e = exponential(loadPart(x + i, lanes) - top);
    sum += lanes == kWidth ? e : where(firstLanes(lanes), e, Vec{});
  });
  return total(sum);
}

// ---- losses and sums -----------------------------------------------------------------------

double softmaxXent(std::int64_t rows, std::int64_t k, const float* logits,
                   const std::int32_t* label, const float* w, float* lse) {
  double loss = 0;
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* x = logits + r * k;
    const float top = largest(k, x), size = __builtin_logf(expSum(k, x, top));
    loss += static_cast<double>(w[r] * (size + (top - x[label[r]])));
    lse[r] = size + top;
  }
  return loss;
}
void softmaxXentGrad(std::int64_t rows, std::int64_t k, const float* logits,
                     const std::int32_t* label, const float* w, const float* lse, float dloss,
                     float* dx) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const float factor = w[r] * dloss, sum = lse[r];
    const float* x = logits + r * k;
    float* y = dx + r * k;
    const Vec right = exponential(splat(x[label[r]] - sum));
    forVectors(k, [&](std::int64_t i, auto lanes) {
      storePart(y + i, exponential(loadPart(x + i, lanes) - sum) * factor, lanes);
    });
    y[label[r]] = (right[0] - 1) * factor;
  }
}

// Sums blocks in f32 and their sums in f64.
double sumSquares(std::int64_t n, const float* x) {
  constexpr std::int64_t kInBlock = 4096;
  double sum = 0;
  for (std::int64_t first = 0; first < n; first += kInBlock) {
    const std::int64_t end = least(n, first + kInBlock);
    Vec s0{}, s1{}, s2{}, s3{};
    std::int64_t i = first;
    for (; i + 4 * kWidth <= end; i += 4 * kWidth) {
      const Vec a = load(x + i), b = load(x + i + kWidth), c = load(x + i + 2 * kWidth),
                d = load(x + i + 3 * kWidth);
      s0 += a * a, s1 += b * b, s2 += c * c, s3 += d * d;
    }
    forVectors(end - i, [&](std::int64_t j, auto lanes) {
      const Vec v = loadPart(x + i + j, lanes);
      s0 += v * v;
    });
    sum += static_cast<double>(total((s0 + s1) + (s2 + s3)));
  }
  return sum;
}

// ---- layer norm ----------------------------------------------------------------------------

void layerNorm(const LayerNorm& o) {
  const LayerNorm a = o;
  const auto count = static_cast<float>(a.channels);
  for (std::int64_t r = 0; r < a.rows; ++r) {
    const float* x = a.x + r * a.channels;
    float* y = a.y + r * a.channels;
    Vec sum{}, squares{};
    forVectors(a.channels, [&](std::int64_t i, auto n) { sum += loadPart(x + i, n); });
    const float mean = total(sum) / count;
    forVectors(a.channels, [&](std::int64_t i, auto n) {
      const Vec d = loadOr(x + i, n, mean) - mean;
      squares += d * d;
    });
    const float rstd = 1 / __builtin_sqrtf(total(squares) / count + a.epsilon);
    forVectors(a.channels, [&](std::int64_t i, auto n) {
      storePart(
          y + i,
          (loadPart(x + i, n) - mean) * rstd * loadPart(a.gain + i, n) + loadPart(a.bias + i, n),
          n);
    });
    a.mean[r] = mean;
    a.rstd[r] = rstd;
  }
}

void layerNormGrad(const LayerNorm& o) {
  const LayerNorm a = o;
  const auto count = static_cast<float>(a.channels);
  for (std::int64_t r = 0; r < a.rows; ++r) {
    const float *x = a.x + r * a.channels, *dy = a.dy + r * a.channels;
    float* dx = a.dx + r * a.channels;
    const float mean = a.mean[r], rstd = a.rstd[r];
    Vec sum{}, product{};
    forVectors(a.channels, [&](std::int64_t i, auto n) {
      const Vec g = loadPart(dy + i, n) * loadPart(a.gain + i, n);
      sum += g;
      product += g * (loadPart(x + i, n) - mean) * rstd;
    });
    const float shift = total(sum) / count, slope = total(product) / count;
    forVectors(a.channels, [&](std::int64_t i, auto n) {
      const Vec g = loadPart(dy + i, n) * loadPart(a.gain + i, n);
      const Vec normal = (loadPart(x + i, n) - mean) * rstd;
      storePart(dx + i, rstd * (g - shift - normal * slope), n);
    });
  }
}

// V vectors of channels from i on, the last with `lanes`; rows in blocks as above.
template <int V>
[[gnu::always_inline]] inline void layerNormWeightsOf(const LayerNorm& a, std::int64_t i,
                                                      std::int64_t lanes) {
  const auto lanesOf = [=](int j) { return j + 1 < V ? std::int64_t{kWidth} : lanes; };
  for (std::int64_t r0 = 0; r0 == 0 || r0 < a.rows; r0 += kRowsPerBlock) {
    Vec gain[V], bias[V];
    for (int j = 0; j < V; ++j) gain[j] = bias[j] = Vec{};
    for (std::int64_t r = r0; r < least(a.rows, r0 + kRowsPerBlock); ++r) {
      const float *dy = a.dy + r * a.stride + i, *x = a.x + r * a.stride + i;
      const float mean = a.mean[r], rstd = a.rstd[r];
#pragma GCC unroll 4
      for (int j = 0; j < V; ++j) {
        const Vec g = loadPart(dy + j * kWidth, lanesOf(j));
        gain[j] += g * (loadPart(x + j * kWidth, lanesOf(j)) - mean) * rstd;
        bias[j] += g;
      }
    }
    for (int j = 0; j < V; ++j) {
      float *dgain = a.dgain + i + j * kWidth, *dbias = a.dbias + i + j * kWidth;
      storePart(dgain, r0 > 0 ? gain[j] + loadPart(dgain, lanesOf(j)) : gain[j], lanesOf(j));
      storePart(dbias, r0 > 0 ? bias[j] + loadPart(dbias, lanesOf(j)) : bias[j], lanesOf(j));
    }
  }
}
void layerNormWeights(const LayerNorm& o) {
  const LayerNorm a = o;
  std::int64_t i = 0;
  for (; i + 4 * kWidth <= a.channels; i += 4 * kWidth) layerNormWeightsOf<4>(a, i, kWidth);
  for (; i < a.channels; i += kWidth) layerNormWeightsOf<1>(a, i, least(kWidth, a.channels - i));
}

// ---- batch norm ----------------------------------------------------------------------------

// Accumulates f(row, first, second) over the rows of each sample, one vector of channels at a time.
// Sums a sample's rows first, then the samples' sums; odd and even rows are accumulated separately
// to shorten dependency chains.
template <typename F>
[[gnu::always_inline]] inline void sumSamples(const BatchNorm& a, F f) {
  forVectors(a.channels, [&](std::int64_t c, auto n) {
    Vec first{}, second{};
    for (std::int64_t s = 0; s < a.samples; ++s) {
      const std::int64_t begin = s * a.pixels;
      Vec first0{}, first1{}, second0{}, second1{};
      std::int64_t p = 0;
      for (; p + 1 < a.pixels; p += 2) {
        f((begin + p) * a.stride + c, c, n, first0, second0);
        f((begin + p + 1) * a.stride + c, c, n, first1, second1);
      }
      if (p < a.pixels) f((begin + p) * a.stride + c, c, n, first0, second0);
      const float w = a.w ? a.w[s] : 1.0f;
      first += w * (first0 + first1);
      second += w * (second0 + second1);
    }
    storePart(a.first + c, first, n);
    storePart(a.second + c, second, n);
  });
}

void batchMoments(const BatchNorm& o) {
  const BatchNorm a = o;
  sumSamples(a, [&](std::int64_t i, std::int64_t c, auto n, Vec& first, Vec& second) {
    const Vec d = loadPart(a.x + i, n) - loadPart(a.mean + c, n);
    first += d;
    second += d * d;
  });
}
void batchNormSums(const BatchNorm& o) {
  const BatchNorm a = o;
  sumSamples(a, [&](std::int64_t i, std::int64_t c, auto n, Vec& first, Vec& second) {
    const Vec dy = loadPart(a.dy + i, n);
    first += dy * (loadPart(a.x + i, n) - loadPart(a.mean + c, n));
    second += dy;
  });
}
void batchNorm(const BatchNorm& o) {
  const BatchNorm a = o;
  for (std::int64_t row = 0; row < a.samples * a.pixels; ++row) {
    const float* x = a.x + row * a.channels;
    float* y = a.y + row * a.channels;
    forVectors(a.channels, [&](std::int64_t c, auto n) {
      const Vec d = loadPart(x + c, n) - loadPart(a.mean + c, n);
      storePart(y + c, d * loadPart(a.scale + c, n) + loadPart(a.offset + c, n), n);
    });
  }
}
void batchNormGrad(const BatchNorm& o) {
  const BatchNorm a = o;
  for (std::int64_t s = 0; s < a.samples; ++s) {
    const float w = a.w[s];
    for (std::int64_t row = s * a.pixels; row < (s + 1) * a.pixels; ++row) {
      const float *x = a.x + row * a.channels, *dy = a.dy + row * a.channels;
      float* y = a.y + row * a.channels;
      forVectors(a.channels, [&](std::int64_t c, auto n) {
        const Vec d = loadPart(x + c, n) - loadPart(a.mean + c, n);
        const Vec through = loadPart(a.offset + c, n) + d * loadPart(a.slope + c, n);
        storePart(y + c, loadPart(dy + c, n) * loadPart(a.scale + c, n) + w * through, n);
      });
    }
  }
}

void meanPool(std::int64_t samples, std::int64_t pixels, std::int64_t channels, const float* x,
              float* y) {
  const float scale = 1.0f / static_cast<float>(pixels);
  for (std::int64_t s = 0; s < samples; ++s, x += pixels * channels, y += channels)
    forVectors(channels, [=](std::int64_t c, auto n) {
      Vec sum{};
      for (std::int64_t p = 0; p < pixels; ++p) sum += loadPart(x + p * channels + c, n);
      storePart(y + c, sum * scale, n);
    });
}
void meanPoolGrad(std::int64_t samples, std::int64_t pixels, std::int64_t channels, const float* dy,
                  float* dx) {
  const float scale = 1.0f / static_cast<float>(pixels);
  for (std::int64_t s = 0; s < samples; ++s, dx += pixels * channels, dy += channels)
    for (std::int64_t p = 0; p < pixels; ++p)
      forVectors(channels, [=](std::int64_t c, auto n) {
        storePart(dx + p * channels + c, loadPart(dy + c, n) * scale, n);
      });
}

// ---- optimizers ----------------------------------------------------------------------------

void adam(const Adam& o) {
  const Adam a = o;
  const float rest1 = 1 - a.beta1, rest2 = 1 - a.beta2;
  forVectors(a.n, [=](std::int64_t i, auto n) {
    const Vec g = loadPart(a.g + i, n) * a.scale;
    const Vec m = loadPart(a.m + i, n) * a.beta1 + g * rest1;
    const Vec v = loadPart(a.v + i, n) * a.beta2 + g * g * rest2;
    const Vec p = loadPart(a.p + i, n) * a.keep - m * a.rate / (squareRoot(v) + a.epsilon);
    storePart(a.mOut + i, m, n);
    storePart(a.vOut + i, v, n);
    storePart(a.pOut + i, p, n);
  });
}

void sgd(const Sgd& o) {
  const Sgd a = o;
  forVectors(a.n, [=](std::int64_t i, auto n) {
    const Vec p = loadPart(a.p + i, n);
    const Vec v = loadPart(a.v + i, n) * a.momentum + loadPart(a.g + i, n) * a.scale + p * a.decay;
    storePart(a.vOut + i, v, n);
    storePart(a.pOut + i, p - v * a.lr, n);
  });
}

// A zero gradient changes nothing, even with epsilon 0.
void adagrad(const Adagrad& o) {
  const Adagrad a = o;
  forVectors(a.n, [=](std::int64_t i, auto n) {
    const Vec p = loadPart(a.p + i, n);
    const Vec g = loadPart(a.g + i, n) * a.scale + p * a.decay;
    const Vec s = loadPart(a.s + i, n) + g * g;
    const Vec moved = where(g != Vec{}, g * a.lr / (squareRoot(s) + a.epsilon), Vec{});
    storePart(a.sOut + i, s, n);
    storePart(a.pOut + i, p - moved, n);
  });
}

}  // namespace
}  // namespace lockstep::backends::cpu

#include "engine/backends/cpu/attention_body.h"
#include "engine/backends/cpu/gemm16_body.h"

namespace lockstep::backends::cpu {
namespace {

constexpr Kernels kernels(const char* isa, void (*random)(const Random&)) {
#if defined(__AVX512BF16__)
  constexpr bool kAdds16 = true;
#else
  constexpr bool kAdds16 = false;
#endif
  return {.isa = isa,
          .random = random,
          .gemm = gemm,
          .gemm16 = gemm16,
          .adds16 = kAdds16,
          .maxPool = maxPool,
          .maxPoolGrad = maxPoolGrad,
          .reduceRows = reduceRows,
          .biasAdd = biasAdd,
          .relu = relu,
          .reluGrad = reluGrad,
          .tanhGrad = tanhGrad,
          .add = add,
          .scale = scale,
          .gelu = gelu,
          .geluGrad = geluGrad,
          .softmaxXent = softmaxXent,
          .softmaxXentGrad = softmaxXentGrad,
          .sumSquares = sumSquares,
          .attention = attention,
          .attentionGrad = attentionGrad,
          .layerNorm = layerNorm,
          .layerNormGrad = layerNormGrad,
          .layerNormWeights = layerNormWeights,
          .batchMoments = batchMoments,
          .batchNorm = batchNorm,
          .batchNormSums = batchNormSums,
          .batchNormGrad = batchNormGrad,
          .meanPool = meanPool,
          .meanPoolGrad = meanPoolGrad,
          .castU8 = castU8,
          .encode = {encodeFp16, encodeBf16, encodeInt8},
          .decode = {decodeFp16, decodeBf16, decodeInt8},
          .castTo16Bits = {castToFp16, castToBf16},
          .subtract = subtract,
          .adam = adam,
          .sgd = sgd,
          .adagrad = adagrad};
}

}  // namespace
}  // namespace lockstep::backends::cpu
