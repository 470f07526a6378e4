#include "engine/backends/reference.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <type_traits>
#include <unordered_map>

#include "engine/backends/kernel.h"
#include "engine/backends/narrow_storage.h"
#include "engine/backends/reference_batch_norm.h"
#include "engine/backends/reference_compression.h"
#include "engine/backends/reference_kernels.h"
#include "engine/backends/reference_sequence.h"
#include "engine/backends/rows.h"
#include "engine/base/random.h"

namespace lockstep::backends {
namespace {

using ir::Op;
namespace elementwise = reference::elementwise;

template <typename T>
T* in(const KernelSpec& spec, std::size_t i) {
  return static_cast<T*>(spec.inputs[i].data);
}
template <typename T>
T* out(const KernelSpec& spec, std::size_t i = 0) {
  return static_cast<T*>(spec.outputs[i].data);
}

template <typename To, typename From>
std::unique_ptr<Kernel> bindCastFrom(const KernelSpec& spec) {
  const From* x = in<From>(spec, 0);
  To* y = out<To>(spec);
  const std::int64_t n = spec.outputs[0].type.count();
  const double scale = ir::floatAttr(*spec.attrs, "scale", 1.0);
  return makeKernel([=] {
    for (std::int64_t i = 0; i < n; ++i) {
      const double scaled = static_cast<double>(x[i]) * scale;
      if constexpr (sizeof(To) == 2)
        y[i] = reference::narrowed<To>(scaled);
      else
        y[i] = static_cast<To>(scaled);
    }
  });
}

template <typename T>
Result<std::unique_ptr<Kernel>> bindCast(const KernelSpec& spec) {
  switch (spec.inputs[0].type.dtype) {
    case DType::kF32:
      return bindCastFrom<T, float>(spec);
    case DType::kF64:
      return bindCastFrom<T, double>(spec);
    case DType::kBf16:
      return bindCastFrom<T, Bf16>(spec);
    case DType::kF16:
      return bindCastFrom<T, F16>(spec);
    case DType::kI32:
      return bindCastFrom<T, std::int32_t>(spec);
    case DType::kI64:
      return bindCastFrom<T, std::int64_t>(spec);
    case DType::kU8:
      return bindCastFrom<T, std::uint8_t>(spec);
    default:
      return unsupported("reference", spec);
  }
}

template <typename T>
Result<std::unique_ptr<Kernel>> bindRandom(const KernelSpec& spec) {
  T* y = out<T>(spec);
  const std::int64_t n = spec.outputs[0].type.count();
  const auto key = static_cast<std::uint64_t>(ir::intAttr(*spec.attrs, "key"));
  const double scale = ir::floatAttr(*spec.attrs, "scale", 1.0);
  const bool normal = ir::textAttr(*spec.attrs, "kind") == "normal";
  const std::int64_t block = ir::intAttr(*spec.attrs, "block", std::max<std::int64_t>(n, 1));
  const std::int64_t pitch = ir::intAttr(*spec.attrs, "pitch");
  const std::int64_t first = ir::intAttr(*spec.attrs, "first");
  return makeKernel([=] {
    for (std::int64_t i = 0; i < n; ++i) {
      const auto index = static_cast<std::uint64_t>(i / block * pitch + first + i % block);
      const double r = normal ? randomNormal(key, index) : 2 * randomUniform(key, index) - 1;
      y[i] = static_cast<T>(r * scale);
    }
  });
}

// y[i] = f(x[i]) and y[i] = f(a[i], b[i]), evaluated in f64.
template <typename T, typename F>
std::unique_ptr<Kernel> unary(const KernelSpec& spec, F f) {
  const T* x = in<T>(spec, 0);
  T* y = out<T>(spec);
  const std::int64_t n = spec.outputs[0].type.count();
  return makeKernel([=] {
    for (std::int64_t i = 0; i < n; ++i) y[i] = static_cast<T>(f(static_cast<double>(x[i])));
  });
}
template <typename T, typename F>
std::unique_ptr<Kernel> binary(const KernelSpec& spec, F f) {
  const T *a = in<T>(spec, 0), *b = in<T>(spec, 1);
  T* y = out<T>(spec);
  const std::int64_t n = spec.outputs[0].type.count();
  return makeKernel([=] {
    for (std::int64_t i = 0; i < n; ++i)
      y[i] = static_cast<T>(f(static_cast<double>(a[i]), static_cast<double>(b[i])));
  });
}

template <typename T, double (*f)(double)>
Result<std::unique_ptr<Kernel>> bindUnary(const KernelSpec& spec) {
  return unary<T>(spec, f);
}

template <typename T, double (*f)(double, double)>
Result<std::unique_ptr<Kernel>> bindBinary(const KernelSpec& spec) {
  return binary<T>(spec, f);
}

template <typename T>
Result<std::unique_ptr<Kernel>> bindDropout(const KernelSpec& spec) {
  const T* x = in<T>(spec, 0);
  const std::int32_t* keys = in<std::int32_t>(spec, 1);
  T* y = out<T>(spec);
  const ir::Attrs& attrs = *spec.attrs;
  const std::int64_t n = spec.outputs[0].type.count(), samples = spec.inputs[1].type.count();
  const std::int64_t local = spec.outputs[0].type.shape.back();
  const std::int64_t columns = ir::intAttr(attrs, "columns", local);
  const std::int64_t first = ir::intAttr(attrs, "first");
  const std::int64_t rows = n / samples / local;  // per sample
  const auto salt = static_cast<std::uint64_t>(ir::intAttr(attrs, "salt"));
  const double rate = ir::floatAttr(attrs, "rate");
  const T keep = static_cast<T>(1 / (1 - rate));
  // randomUniform(key, e) ≥ rate, without its division.
  const auto bound = static_cast<std::uint64_t>(std::ceil(rate * 0x1.0p53));
  return makeKernel([=] {
    for (std::int64_t b = 0; b < samples; ++b) {
      const std::uint64_t key = randomKey(static_cast<std::uint64_t>(keys[b]), salt);
      for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t c = 0; c < local; ++c) {
          const std::int64_t i = (b * rows + r) * local + c;
          const auto e = static_cast<std::uint64_t>(r * columns + first + c);
          y[i] = (randomBits(key, e) >> 11) >= bound ? x[i] * keep : T{0};
        }
    }
  });
}

template <typename T>
Result<std::unique_ptr<Kernel>> bindConcat(const KernelSpec& spec) {
  struct Part {
    const T* x;
    std::int64_t columns;
  };
  std::vector<Part> parts;
  for (std::size_t i = 0; i < spec.inputs.size(); ++i)
    parts.push_back({in<T>(spec, i), spec.inputs[i].type.shape[1]});
  T* y = out<T>(spec);
  const Shape shape = spec.outputs[0].type.shape;
  return makeKernel([=, rows = shape[0], columns = shape[1]] {
    std::int64_t first = 0;
    for (const Part& part : parts) {
      for (std::int64_t r = 0; r < rows; ++r)
        std::copy_n(part.x + r * part.columns, part.columns, y + r * columns + first);
      first += part.columns;
    }
  });
}

// Vocabulary-parallel cross-entropy; this rank's classes begin with `first`.
template <typename T>
Result<std::unique_ptr<Kernel>> bindDividedXent(const KernelSpec& spec) {
  const std::int64_t first = ir::intAttr(*spec.attrs, "first");
  const auto shapeOf = [&](std::size_t i) { return spec.inputs[i].type.shape; };
  const std::int64_t rows = shapeOf(0)[0];
  const auto label = [&](std::size_t i) { return in<std::int32_t>(spec, i); };
  T* y = out<T>(spec);
  switch (spec.op) {
    case Op::kRowMax: {
      const T* x = in<T>(spec, 0);
      const std::int64_t k = shapeOf(0)[1];
      return makeKernel([=] {
        for (std::int64_t r = 0; r < rows; ++r) y[r] = reference::largest(k, x + r * k);
      });
    }
    case Op::kXentTerms: {
      const T *x = in<T>(spec, 0), *m = in<T>(spec, 2);
      const std::int32_t* labels = label(1);
      const std::int64_t k = shapeOf(0)[1];
      T* t = out<T>(spec, 1);
      return makeKernel([=] {
        for (std::int64_t r = 0; r < rows; ++r) {
          double sum = 0;
          for (std::int64_t i = 0; i < k; ++i)
            sum += std::exp(static_cast<double>(x[r * k + i] - m[r]));
          y[r] = static_cast<T>(sum);
          const std::int64_t mine = labels[r] - first;
          t[r] = mine >= 0 && mine < k ? x[r * k + mine] - m[r] : T{0};
        }
      });
    }
    case Op::kXentTermsGrad: {
      const T *ds = in<T>(spec, 0), *dt = in<T>(spec, 1), *x = in<T>(spec, 2), *m = in<T>(spec, 4);
      const std::int32_t* labels = label(3);
      const std::int64_t k = shapeOf(2)[1];
      return makeKernel([=] {
        for (std::int64_t r = 0; r < rows; ++r) {
          const std::int64_t mine = labels[r] - first;
          for (std::int64_t i = 0; i < k; ++i) {
            const double e = std::exp(static_cast<double>(x[r * k + i] - m[r]));
            y[r * k + i] = static_cast<T>(static_cast<double>(ds[r]) * e +
                                          (i == mine ? static_cast<double>(dt[r]) : 0.0));
          }
        }
      });
    }
    case Op::kXentLoss: {
      const T *s = in<T>(spec, 0), *t = in<T>(spec, 1), *w = in<T>(spec, 2);
      return makeKernel([=] {
        double sum = 0;
        for (std::int64_t r = 0; r < rows; ++r)
          sum += static_cast<double>(w[r]) *
                 (std::log(static_cast<double>(s[r])) - static_cast<double>(t[r]));
        y[0] = static_cast<T>(sum);
      });
    }
    default: {  // kXentLossGrad
      const T *s = in<T>(spec, 0), *w = in<T>(spec, 1), *dloss = in<T>(spec, 2);
      T* dt = out<T>(spec, 1);
      return makeKernel([=] {
        for (std::int64_t r = 0; r < rows; ++r) {
          const T scaled = dloss[0] * w[r];
          y[r] = scaled / s[r];
          dt[r] = -scaled;
        }
      });
    }
  }
}

// X is the operand type.
template <typename X, typename T>
std::unique_ptr<Kernel> bindProduct(const KernelSpec& spec) {
  const X *a = in<X>(spec, 0), *b = in<X>(spec, 1);
  const T* bias = spec.inputs.size() > 2 ? in<T>(spec, 2) : nullptr;
  T* y = out<T>(spec);
  if (spec.op == Op::kMatmul)
    return makeKernel([=, s = matmulShape(spec)] { reference::matmul(s, a, b, bias, y); });
  const ConvShape s = convShape(spec);
  if (spec.op == Op::kConv2d) return makeKernel([=] { reference::conv2d(s, a, b, bias, y); });
  if (spec.op == Op::kConv2dInputGrad)
    return makeKernel([=] { reference::conv2dInputGrad(s, a, b, y); });
  return makeKernel([=] { reference::conv2dWeightGrad(s, a, b, y); });
}

template <typename T>
Result<std::unique_ptr<Kernel>> bindFill(const KernelSpec& spec) {
  const ir::Attrs& attrs = *spec.attrs;
  T* y = out<T>(spec);
  const std::int64_t n = spec.outputs[0].type.count();
  const T value = static_cast<T>(ir::floatAttr(attrs, "value"));
  return makeKernel([=] { std::fill_n(y, n, value); });
}

template <typename T>
Result<std::unique_ptr<Kernel>> bindScale(const KernelSpec& spec) {
  const ir::Attrs& attrs = *spec.attrs;
  const double factor = ir::floatAttr(attrs, "factor", 1.0);
  return unary<T>(spec, [factor](double x) { return x * factor; });
}

template <typename T>
Result<std::unique_ptr<Kernel>> bindPartialToLocal(const KernelSpec& spec) {
  const T* x = in<T>(spec, 0);
  T* y = out<T>(spec);
  const std::int64_t n = spec.outputs[0].type.count();
  return makeKernel([=] {
    if (x != y) std::copy_n(x, n, y);
  });
}

template <typename T>
Result<std::unique_ptr<Kernel>> bindScaleByRatio(const KernelSpec& spec) {
  const T *x = in<T>(spec, 0), *own = in<T>(spec, 1), *total = in<T>(spec, 2);
  T* y = out<T>(spec);
  const std::int64_t n = spec.outputs[0].type.count();
  return makeKernel([=] {
    const T share = *total <= 0 ? T{0} : *own / *total;
    for (std::int64_t i = 0; i < n; ++i) y[i] = x[i] * share;
  });
}

template <typename T>
Result<std::unique_ptr<Kernel>> bindSelectIfFinite(const KernelSpec& spec) {
  const T *x = in<T>(spec, 0), *before = in<T>(spec, 1), *norm = in<T>(spec, 2);
  T* y = out<T>(spec);
  const std::int64_t n = spec.outputs[0].type.count();
  return makeKernel([=] {
    if (const T* from = *norm < 0 ? before : x; from != y) std::copy_n(from, n, y);
  });
}

template <typename T>
Result<std::unique_ptr<Kernel>> bindOrderedSum(const KernelSpec& spec) {
  const T *sum = in<T>(spec, 0), *x = in<T>(spec, 1);
  T* y = out<T>(spec);
  const std::int64_t n = spec.outputs[0].type.count(), all = spec.inputs[1].type.count();
  return makeKernel([=] {
    if (y != sum) std::copy_n(sum, n, y);
    for (const T* part = x; part < x + all; part += n)
      for (std::int64_t i = 0; i < n; ++i) y[i] += part[i];
  });
}

template <typename T>
Result<std::unique_ptr<Kernel>> bindColumns(const KernelSpec& spec) {
  const ir::Attrs& attrs = *spec.attrs;
  const std::int64_t from = spec.inputs[0].type.shape[1], first = ir::intAttr(attrs, "first");
  const Shape shape = spec.outputs[0].type.shape;
  const T* x = in<T>(spec, 0);
  T* y = out<T>(spec);
  return makeKernel([=, rows = shape[0], columns = shape[1]] {
    for (std::int64_t r = 0; r < rows; ++r)
      std::copy_n(x + r * from + first, columns, y + r * columns);
  });
}

template <typename T>
Result<std::unique_ptr<Kernel>> bindMatmulOrConv(const KernelSpec& spec) {
  if (spec.inputs[0].type.dtype == DType::kBf16) return bindProduct<Bf16, T>(spec);
  if (spec.inputs[0].type.dtype == DType::kF16) return bindProduct<F16, T>(spec);
  return bindProduct<T, T>(spec);
}

template <typename T>
Result<std::unique_ptr<Kernel>> bindBiasAdd(const KernelSpec& spec) {
  const std::int64_t c = spec.inputs[1].type.count(), n = spec.outputs[0].type.count();
  const T *x = in<T>(spec, 0), *b = in<T>(spec, 1);
  T* y = out<T>(spec);
  return makeKernel([=] {
    for (std::int64_t i = 0; i < n; ++i) y[i] = x[i] + b[i % c];
  });
}

template <typename T>
Result<std::unique_ptr<Kernel>> bindReduceRows(const KernelSpec& spec) {
  const std::int64_t c = spec.outputs[0].type.count();
  const std::int64_t rows = c == 0 ? 0 : spec.inputs[0].type.count() / c;
  const T* x = in<T>(spec, 0);
  T* y = out<T>(spec);
  return makeKernel([=] { reference::reduceRows(rows, c, x, y); });
}

template <typename T>
Result<std::unique_ptr<Kernel>> bindMaxPool2d(const KernelSpec& spec) {
  const PoolShape s = poolShape(spec);
  const T* x = in<T>(spec, 0);
  T* y = out<T>(spec);
  return makeKernel([=] { reference::maxPool2d(s, x, y); });
}

template <typename T>
Result<std::unique_ptr<Kernel>> bindMaxPool2dGrad(const KernelSpec& spec) {
  const PoolShape s = poolShape(spec);
  const T *x = in<T>(spec, 0), *dy = in<T>(spec, 2);
  T* dx = out<T>(spec);
  return makeKernel([=] { reference::maxPool2dGrad(s, x, dy, dx); });
}

template <typename T>
Result<std::unique_ptr<Kernel>> bindMeanPool2d(const KernelSpec& spec) {
  const Shape s = spec.inputs[0].type.shape;
  const T* x = in<T>(spec, 0);
  T* y = out<T>(spec);
  return makeKernel(
      [=, b = s[0], n = s[1] * s[2], c = s[3]] { reference::meanPool(b, n, c, x, y); });
}

template <typename T>
Result<std::unique_ptr<Kernel>> bindMeanPool2dGrad(const KernelSpec& spec) {
  const Shape s = spec.outputs[0].type.shape;
  const T* dy = in<T>(spec, 0);
  T* dx = out<T>(spec);
  return makeKernel(
      [=, b = s[0], n = s[1] * s[2], c = s[3]] { reference::meanPoolGrad(b, n, c, dy, dx); });
}

template <typename T>
Result<std::unique_ptr<Kernel>> bindBatchMoments(const KernelSpec& spec) {
  const BatchNormShape s = batchNormShape(spec);
  const T *x = in<T>(spec, 0), *w = in<T>(spec, 1), *shift = in<T>(spec, 2);
  T* moments = out<T>(spec);
  return makeKernel([=] { reference::batchMoments(s, x, w, shift, moments); });
}

template <typename T>
Result<std::unique_ptr<Kernel>> bindBatchStatistics(const KernelSpec& spec) {
  const Shape s = spec.outputs[0].type.shape;
  const T *moments = in<T>(spec, 0), *shift = in<T>(spec, 1);
  T *mean = out<T>(spec, 0), *variance = out<T>(spec, 1), *sums = out<T>(spec, 2);
  return makeKernel([=, groups = s[0], c = s[1]] {
    reference::batchStatistics(groups, c, moments, shift, mean, variance, sums);
  });
}

template <typename T>
Result<std::unique_ptr<Kernel>> bindBatchNorm(const KernelSpec& spec) {
  const ir::Attrs& attrs = *spec.attrs;
  const BatchNormShape s = batchNormShape(spec);
  const double epsilon = ir::floatAttr(attrs, "eps");
  const T *x = in<T>(spec, 0), *gain = in<T>(spec, 1), *bias = in<T>(spec, 2),
          *mean = in<T>(spec, 3), *variance = in<T>(spec, 4);
  T* y = out<T>(spec);
  return makeKernel([=] { reference::batchNorm(s, epsilon, x, gain, bias, mean, variance, y); });
}

template <typename T>
Result<std::unique_ptr<Kernel>> bindBatchNormWeightGrad(const KernelSpec& spec) {
  const ir::Attrs& attrs = *spec.attrs;
  const BatchNormShape s = batchNormShape(spec);
  const double epsilon = ir::floatAttr(attrs, "eps");
  const T *dy = in<T>(spec, 0), *x = in<T>(spec, 1), *mean = in<T>(spec, 2),
          *variance = in<T>(spec, 3);
  T *dgain = out<T>(spec, 0), *dbias = out<T>(spec, 1), *sums = out<T>(spec, 2);
  return makeKernel([=] {
    reference::batchNormWeightGrad(s, epsilon, dy, x, mean, variance, dgain, dbias, sums);
  });
}

template <typename T>
Result<std::unique_ptr<Kernel>> bindBatchNormGrad(const KernelSpec& spec) {
  const ir::Attrs& attrs = *spec.attrs;
  const BatchNormShape s = batchNormShape(spec);
  const reference::BatchNormGradOperands<T> o{in<T>(spec, 0), in<T>(spec, 1), in<T>(spec, 2),
                                              in<T>(spec, 3), in<T>(spec, 4), in<T>(spec, 5),
                                              in<T>(spec, 6), in<T>(spec, 7), out<T>(spec)};
  const double epsilon = ir::floatAttr(attrs, "eps");
  return makeKernel([=] { reference::batchNormGrad(s, epsilon, o); });
}

template <typename T>
Result<std::unique_ptr<Kernel>> bindRunningStatistics(const KernelSpec& spec) {
  const ir::Attrs& attrs = *spec.attrs;
  const std::int64_t c = spec.inputs[0].type.count();
  const double momentum = ir::floatAttr(attrs, "momentum");
  const T *mean = in<T>(spec, 0), *variance = in<T>(spec, 1), *sums = in<T>(spec, 2);
  T *newMean = out<T>(spec, 0), *newVariance = out<T>(spec, 1);
  return makeKernel([=] {
    reference::runningStatistics(c, momentum, mean, variance, sums, newMean, newVariance);
  });
}

template <typename T>
Result<std::unique_ptr<Kernel>> bindEmbedding(const KernelSpec& spec) {
  const ir::Attrs& attrs = *spec.attrs;
  const Shape table = spec.inputs[0].type.shape;
  const std::int64_t rows = spec.inputs[1].type.count(), first = ir::intAttr(attrs, "first");
  const T* weights = in<T>(spec, 0);
  const std::int32_t* ids = in<std::int32_t>(spec, 1);
  T* y = out<T>(spec);
  return makeKernel([=, v = table[0], c = table[1]] {
    reference::embedding(rows, c, first, v, weights, ids, y);
  });
}

template <typename T>
Result<std::unique_ptr<Kernel>> bindEmbeddingGrad(const KernelSpec& spec) {
  const ir::Attrs& attrs = *spec.attrs;
  const Shape table = spec.outputs[0].type.shape;
  const std::int64_t rows = spec.inputs[0].type.count(), first = ir::intAttr(attrs, "first");
  const std::int32_t* ids = in<std::int32_t>(spec, 0);
  const T* dy = in<T>(spec, 1);
  T* dtable = out<T>(spec);
  return makeKernel([=, v = table[0], c = table[1]] {
    reference::embeddingGrad(rows, c, first, v, ids, dy, dtable);
  });
}

template <typename T>
Result<std::unique_ptr<Kernel>> bindUnique(const KernelSpec& spec) {
  const ir::Attrs& attrs = *spec.attrs;
  Unique unique(spec.inputs[0].type.count(), spec.outputs[0].type.count(),
                ir::listAttr(attrs, "cuts"));
  const std::int32_t* ids = in<std::int32_t>(spec, 0);
  std::int32_t *each = out<std::int32_t>(spec, 0), *counts = out<std::int32_t>(spec, 1),
               *places = out<std::int32_t>(spec, 2);
  const std::int64_t bytes = unique.bytes();
  return makeKernel(
      [=, unique = std::move(unique)]() mutable { unique.run(ids, each, counts, places); }, bytes);
}

template <typename T>
Result<std::unique_ptr<Kernel>> bindCombineRows(const KernelSpec& spec) {
  const std::int64_t count = spec.inputs[1].type.count();
  const CombineRows<T> rows{count,
                            spec.inputs[0].type.count() / count,
                            spec.outputs[2].type.count(),
                            in<T>(spec, 0),
                            in<std::int32_t>(spec, 1),
                            out<T>(spec, 0),
                            out<std::int32_t>(spec, 1),
                            out<std::int32_t>(spec, 2)};
  return makeKernel([=] { combineRows(rows); });
}

template <typename T>
Result<std::unique_ptr<Kernel>> bindLayerNorm(const KernelSpec& spec) {
  const ir::Attrs& attrs = *spec.attrs;
  const Shape shape = spec.inputs[0].type.shape;
  const double epsilon = ir::floatAttr(attrs, "eps");
  const T *x = in<T>(spec, 0), *gain = in<T>(spec, 1), *bias = in<T>(spec, 2);
  T *y = out<T>(spec, 0), *mean = out<T>(spec, 1), *rstd = out<T>(spec, 2);
  return makeKernel([=, n = shape[0], c = shape[1]] {
    reference::layerNorm(n, c, epsilon, x, gain, bias, y, mean, rstd);
  });
}

template <typename T>
Result<std::unique_ptr<Kernel>> bindLayerNormGrad(const KernelSpec& spec) {
  const Shape shape = spec.inputs[0].type.shape;
  const T *dy = in<T>(spec, 0), *x = in<T>(spec, 1), *gain = in<T>(spec, 2), *mean = in<T>(spec, 3),
          *rstd = in<T>(spec, 4);
  T* dx = out<T>(spec);
  return makeKernel([=, n = shape[0], c = shape[1]] {
    reference::layerNormGrad(n, c, dy, x, gain, mean, rstd, dx);
  });
}

template <typename T>
Result<std::unique_ptr<Kernel>> bindLayerNormWeightGrad(const KernelSpec& spec) {
  const Shape shape = spec.inputs[0].type.shape;
  const T *dy = in<T>(spec, 0), *x = in<T>(spec, 1), *mean = in<T>(spec, 2), *rstd = in<T>(spec, 3);
  T *dgain = out<T>(spec, 0), *dbias = out<T>(spec, 1);
  return makeKernel([=, n = shape[0], c = shape[1]] {
    reference::layerNormWeightGrad(n, c, dy, x, mean, rstd, dgain, dbias);
  });
}

template <typename T>
Result<std::unique_ptr<Kernel>> bindAttention(const KernelSpec& spec) {
  const AttentionShape s = attentionShape(spec);
  const T* qkv = in<T>(spec, 0);
  T *y = out<T>(spec, 0), *lse = out<T>(spec, 1);
  std::vector<double> scores(static_cast<std::size_t>(s.tokens));
  return makeKernel([=, scores = std::move(scores)]() mutable {
    reference::attention(s, qkv, y, lse, scores.data());
  });
}

template <typename T>
Result<std::unique_ptr<Kernel>> bindAttentionGrad(const KernelSpec& spec) {
  const AttentionShape s = attentionShape(spec);
  const T *dy = in<T>(spec, 0), *qkv = in<T>(spec, 1), *y = in<T>(spec, 2), *lse = in<T>(spec, 3);
  T* dqkv = out<T>(spec);
  return makeKernel([=] { reference::attentionGrad(s, dy, qkv, y, lse, dqkv); });
}

template <typename T>
Result<std::unique_ptr<Kernel>> bindRepeatRows(const KernelSpec& spec) {
  const ir::Attrs& attrs = *spec.attrs;
  const std::int64_t n = spec.inputs[0].type.count(), times = ir::intAttr(attrs, "times");
  const T* x = in<T>(spec, 0);
  T* y = out<T>(spec);
  return makeKernel([=] {
    for (std::int64_t i = 0; i < n; ++i) std::fill_n(y + i * times, times, x[i]);
  });
}

template <typename T>
Result<std::unique_ptr<Kernel>> bindSoftmaxXent(const KernelSpec& spec) {
  const Shape shape = spec.inputs[0].type.shape;
  const std::int64_t rows = shape[0], k = shape[1];
  const T *logits = in<T>(spec, 0), *w = in<T>(spec, 2);
  const std::int32_t* label = in<std::int32_t>(spec, 1);
  T *loss = out<T>(spec, 0), *lse = out<T>(spec, 1);
  return makeKernel([=] { reference::softmaxXent(rows, k, logits, label, w, loss, lse); });
}

template <typename T>
Result<std::unique_ptr<Kernel>> bindSoftmaxXentGrad(const KernelSpec& spec) {
  const Shape shape = spec.inputs[0].type.shape;
  const std::int64_t rows = shape[0], k = shape[1];
  const T *logits = in<T>(spec, 0), *w = in<T>(spec, 2), *lse = in<T>(spec, 3),
          *dloss = in<T>(spec, 4);
  const std::int32_t* label = in<std::int32_t>(spec, 1);
  T* dx = out<T>(spec);
  return makeKernel([=] { reference::softmaxXentGrad(rows, k, logits, label, w, lse, dloss, dx); });
}

template <typename T>
Result<std::unique_ptr<Kernel>> bindMseLoss(const KernelSpec& spec) {
  const Shape shape = spec.inputs[0].type.shape;
  const std::int64_t rows = shape[0], k = shape[1];
  const T *x = in<T>(spec, 0), *target = in<T>(spec, 1), *w = in<T>(spec, 2);
  T* loss = out<T>(spec);
  return makeKernel([=] { reference::mseLoss(rows, k, x, target, w, loss); });
}

template <typename T>
Result<std::unique_ptr<Kernel>> bindMseLossGrad(const KernelSpec& spec) {
  const Shape shape = spec.inputs[0].type.shape;
  const std::int64_t rows = shape[0], k = shape[1];
  const T *x = in<T>(spec, 0), *target = in<T>(spec, 1), *w = in<T>(spec, 2),
          *dloss = in<T>(spec, 3);
  T* dx = out<T>(spec);
  return makeKernel([=] { reference::mseLossGrad(rows, k, x, target, w, dloss, dx); });
}

template <typename T>
Result<std::unique_ptr<Kernel>> bindBinaryXent(const KernelSpec& spec) {
  const ir::Attrs& attrs = *spec.attrs;
  const Shape shape = spec.inputs[0].type.shape;
  const std::int64_t rows = shape[0], k = shape[1];
  const T *x = in<T>(spec, 0), *target = in<T>(spec, 1), *w = in<T>(spec, 2);
  T* y = out<T>(spec);
  if (spec.op == Op::kBinaryXent)
    return makeKernel([=] { reference::binaryXent(rows, k, x, target, w, y); });
  if (spec.op == Op::kScoreHistogram) {
    const std::int64_t bins = ir::intAttr(attrs, "bins");
    return makeKernel([=] { reference::scoreHistogram(rows, bins, x, target, w, y); });
  }
  const T* dloss = in<T>(spec, 3);
  return makeKernel([=] { reference::binaryXentGrad(rows, k, x, target, w, dloss, y); });
}

template <typename T>
Result<std::unique_ptr<Kernel>> bindCountCorrect(const KernelSpec& spec) {
  const Shape shape = spec.inputs[0].type.shape;
  const std::int64_t rows = shape[0], k = shape[1];
  const T *logits = in<T>(spec, 0), *w = in<T>(spec, 2);
  const std::int32_t* label = in<std::int32_t>(spec, 1);
  T* y = out<T>(spec);
  return makeKernel([=] { reference::countCorrect(rows, k, logits, label, w, y); });
}

template <typename T>
Result<std::unique_ptr<Kernel>> bindSumAll(const KernelSpec& spec) {
  const std::int64_t n = spec.inputs[0].type.count();
  const T* x = in<T>(spec, 0);
  T* y = out<T>(spec);
  return makeKernel([=] { reference::reduceRows(n, 1, x, y); });
}

template <typename T>
Result<std::unique_ptr<Kernel>> bindSumSquares(const KernelSpec& spec) {
  const std::int64_t n = spec.inputs[0].type.count();
  const T* x = in<T>(spec, 0);
  T* y = out<T>(spec);
  if (spec.inputs.size() == 1)
    return makeKernel([=] { y[0] = static_cast<T>(reference::dot(n, x, x)); });
  const std::int32_t* ids = in<std::int32_t>(spec, 1);
  const std::int64_t rows = spec.inputs[1].type.count(), c = n / rows;
  return makeKernel([=] {
    double sum = 0;
    for (std::int64_t r = 0; r < rows; ++r)
      if (ids[r] != -1) sum += reference::dot(c, x + r * c, x + r * c);
    y[0] = static_cast<T>(sum);
  });
}

template <typename T>
Result<std::unique_ptr<Kernel>> bindFiniteNorm(const KernelSpec& spec) {
  const T *norm = in<T>(spec, 0), *squares = in<T>(spec, 1);
  const T* scale = spec.inputs.size() > 2 ? in<T>(spec, 2) : nullptr;
  T* y = out<T>(spec);
  return makeKernel([=] {
    *y = !std::isfinite(*squares) ? T{-1} : scale != nullptr ? *norm * *scale : *norm;
  });
}

template <typename T>
Result<std::unique_ptr<Kernel>> bindClipNorm(const KernelSpec& spec) {
  const ir::Attrs& attrs = *spec.attrs;
  const double limit = ir::floatAttr(attrs, "limit");
  return binary<T>(spec, [limit](double norm, double squares) {
    if (norm <= 0) return norm;
    const double over = std::sqrt(squares) / (norm * limit);
    return over <= 1 ? norm : norm * over;
  });
}

template <typename T>
Result<std::unique_ptr<Kernel>> bindLossScale(const KernelSpec& spec) {
  const ir::Attrs& attrs = *spec.attrs;
  const T *scale = in<T>(spec, 0), *good = in<T>(spec, 1), *skipped = in<T>(spec, 2),
          *norm = in<T>(spec, 3);
  T *newScale = out<T>(spec, 0), *newGood = out<T>(spec, 1), *newSkipped = out<T>(spec, 2);
  const auto interval = static_cast<T>(ir::floatAttr(attrs, "interval"));
  const auto factor = static_cast<T>(ir::floatAttr(attrs, "factor"));
  const auto least = static_cast<T>(ir::floatAttr(attrs, "least"));
  const auto most = static_cast<T>(ir::floatAttr(attrs, "most"));
  return makeKernel([=] {
    const bool skips = *norm < 0, grows = !skips && *good + 1 >= interval;
    const T now = *scale;
    *newSkipped = *skipped + (skips ? 1 : 0);
    *newGood = skips || grows ? 0 : *good + 1;
    *newScale = skips ? std::max(now / factor, least) : grows ? std::min(now * factor, most) : now;
  });
}

template <typename T>
Result<std::unique_ptr<Kernel>> bindSgd(const KernelSpec& spec) {
  const ir::Attrs& attrs = *spec.attrs;
  const std::int64_t n = spec.inputs[0].type.count();
  const reference::SgdOperands<T> o{in<T>(spec, 0), in<T>(spec, 1),  in<T>(spec, 2), in<T>(spec, 3),
                                    in<T>(spec, 4), out<T>(spec, 0), out<T>(spec, 1)};
  const double momentum = ir::floatAttr(attrs, "momentum");
  const double decay = ir::floatAttr(attrs, "weight_decay");
  return updateIfFinite(spec, makeKernel([=] { reference::sgd(n, o, momentum, decay); }));
}

template <typename T>
Result<std::unique_ptr<Kernel>> bindAdagrad(const KernelSpec& spec) {
  const ir::Attrs& attrs = *spec.attrs;
  const std::int64_t n = spec.inputs[0].type.count();
  const reference::AdagradOperands<T> o{in<T>(spec, 0), in<T>(spec, 1), in<T>(spec, 2),
                                        out<T>(spec, 0), out<T>(spec, 1)};
  const T *norm = in<T>(spec, 3), *lr = in<T>(spec, 4);
  const double epsilon = ir::floatAttr(attrs, "eps");
  const double decay = ir::floatAttr(attrs, "weight_decay");
  return updateIfFinite(spec, makeKernel([=] {
                          reference::adagrad(n, o,
                                             reference::inverseNorm(static_cast<double>(*norm)),
                                             static_cast<double>(*lr), decay, epsilon);
                        }));
}

template <typename T>
Result<std::unique_ptr<Kernel>> bindAdagradRows(const KernelSpec& spec) {
  const ir::Attrs& attrs = *spec.attrs;
  const T *p = in<T>(spec, 0), *s = in<T>(spec, 1), *g = in<T>(spec, 2);
  const std::int32_t* ids = in<std::int32_t>(spec, 3);
  const T *norm = in<T>(spec, 4), *lr = in<T>(spec, 5);
  T *pOut = out<T>(spec, 0), *sOut = out<T>(spec, 1);
  const std::int64_t elements = spec.inputs[0].type.count();
  const std::int64_t rows = spec.inputs[3].type.count();
  const std::int64_t channels = spec.inputs[2].type.count() / rows;
  const std::int64_t first = ir::intAttr(attrs, "first");
  const double epsilon = ir::floatAttr(attrs, "eps");
  auto update = makeKernel([=] {
    if (pOut != p) std::copy_n(p, elements, pOut);
    if (sOut != s) std::copy_n(s, elements, sOut);
    const double scale = reference::inverseNorm(static_cast<double>(*norm));
    forRows(
        rows, channels, first, elements, ids, [](std::int64_t) {},
        [&](std::int64_t at, std::int64_t from, std::int64_t n) {
          reference::adagrad<T>(n, {pOut + at, g + from, sOut + at, pOut + at, sOut + at}, scale,
                                static_cast<double>(*lr), 0, epsilon);
        });
  });
  return updateIfFinite(spec, std::move(update));
}

template <typename T>
Result<std::unique_ptr<Kernel>> bindSgdRows(const KernelSpec& spec) {
  const ir::Attrs& attrs = *spec.attrs;
  const T *p = in<T>(spec, 0), *v = in<T>(spec, 1), *g = in<T>(spec, 2);
  const std::int32_t* ids = in<std::int32_t>(spec, 3);
  const T *norm = in<T>(spec, 4), *lr = in<T>(spec, 5);
  T *pOut = out<T>(spec, 0), *vOut = out<T>(spec, 1);
  const std::int64_t elements = spec.inputs[0].type.count();
  const std::int64_t rows = spec.inputs[3].type.count();
  const std::int64_t channels = spec.inputs[2].type.count() / rows;
  const std::int64_t first = ir::intAttr(attrs, "first");
  auto update = makeKernel([=] {
    if (pOut != p) std::copy_n(p, elements, pOut);
    if (vOut != v) std::copy_n(v, elements, vOut);
    forRows(
        rows, channels, first, elements, ids, [](std::int64_t) {},
        [&](std::int64_t at, std::int64_t from, std::int64_t n) {
          reference::sgd<T>(n, {pOut + at, g + from, vOut + at, norm, lr, pOut + at, vOut + at}, 0,
                            0);
        });
  });
  return updateIfFinite(spec, std::move(update));
}

template <typename T>
Result<std::unique_ptr<Kernel>> bindAdam(const KernelSpec& spec) {
  const ir::Attrs& attrs = *spec.attrs;
  const std::int64_t n = spec.inputs[0].type.count();
  const reference::AdamOperands<T> o{
      in<T>(spec, 0), in<T>(spec, 1), in<T>(spec, 2),  in<T>(spec, 3),  in<T>(spec, 4),
      in<T>(spec, 5), in<T>(spec, 6), out<T>(spec, 0), out<T>(spec, 1), out<T>(spec, 2)};
  const AdamOptions options = adamOptions(attrs);
  return updateIfFinite(spec, makeKernel([=] { reference::adam(n, o, options); }));
}

template <typename T>
Result<std::unique_ptr<Kernel>> bindEncode(const KernelSpec& spec) {
  const CodingShape s = codingShape(spec);
  const T *x = in<T>(spec, 0), *residual = in<T>(spec, 1);
  T* rest = out<T>(spec, 0);
  auto* payload = out<std::byte>(spec, 1);
  const auto n = static_cast<std::size_t>(s.count);
  return makeKernel([=, sent = std::vector<T>(n), t = std::vector<float>(n),
                     order = std::vector<std::uint32_t>(n)]() mutable {
    for (std::int64_t part = 0; part < s.payloads; ++part) {
      const std::int64_t first = part * s.count;
      reference::encode(s, x + first, residual + first, rest + first, payload + part * s.payload,
                        sent, t, order);
    }
  });
}

template <typename T>
Result<std::unique_ptr<Kernel>> bindDecodeSum(const KernelSpec& spec) {
  const CodingShape s = codingShape(spec);
  const auto* payloads = in<std::byte>(spec, 0);
  T* y = out<T>(spec);
  return makeKernel([=] {
    std::fill_n(y, s.count, T{0});
    for (std::int64_t r = 0; r < s.payloads; ++r)
      reference::addDecoded(s, payloads + r * s.payload, y);
  });
}

using Bind = Result<std::unique_ptr<Kernel>> (*)(const KernelSpec&);

// The kernel of each op.
template <typename T>
const std::unordered_map<Op, Bind> kBinds{
    {Op::kFill, bindFill<T>},
    {Op::kRandom, bindRandom<T>},
    {Op::kCast, bindCast<T>},
    {Op::kAdd, bindBinary<T, elementwise::add>},
    {Op::kScale, bindScale<T>},
    {Op::kPartialToLocal, bindPartialToLocal<T>},
    {Op::kScaleByRatio, bindScaleByRatio<T>},
    {Op::kSelectIfFinite, bindSelectIfFinite<T>},
    {Op::kOrderedSum, bindOrderedSum<T>},
    {Op::kRelu, bindUnary<T, elementwise::relu>},
    {Op::kReluGrad, bindBinary<T, elementwise::reluGrad>},
    {Op::kGelu, bindUnary<T, elementwise::gelu>},
    {Op::kGeluGrad, bindBinary<T, elementwise::geluGrad>},
    {Op::kTanh, bindUnary<T, elementwise::tanh>},
    {Op::kTanhGrad, bindBinary<T, elementwise::tanhGrad>},
    {Op::kDropout, bindDropout<T>},
    {Op::kConcat, bindConcat<T>},
    {Op::kColumns, bindColumns<T>},
    {Op::kMatmul, bindMatmulOrConv<T>},
    {Op::kConv2d, bindMatmulOrConv<T>},
    {Op::kConv2dInputGrad, bindMatmulOrConv<T>},
    {Op::kConv2dWeightGrad, bindMatmulOrConv<T>},
    {Op::kBiasAdd, bindBiasAdd<T>},
    {Op::kReduceRows, bindReduceRows<T>},
    {Op::kMaxPool2d, bindMaxPool2d<T>},
    {Op::kMaxPool2dGrad, bindMaxPool2dGrad<T>},
    {Op::kMeanPool2d, bindMeanPool2d<T>},
    {Op::kMeanPool2dGrad, bindMeanPool2dGrad<T>},
    {Op::kBatchMoments, bindBatchMoments<T>},
    {Op::kBatchStatistics, bindBatchStatistics<T>},
    {Op::kBatchNorm, bindBatchNorm<T>},
    {Op::kBatchNormWeightGrad, bindBatchNormWeightGrad<T>},
    {Op::kBatchNormGrad, bindBatchNormGrad<T>},
    {Op::kRunningStatistics, bindRunningStatistics<T>},
    {Op::kEmbedding, bindEmbedding<T>},
    {Op::kEmbeddingGrad, bindEmbeddingGrad<T>},
    {Op::kUnique, bindUnique<T>},
    {Op::kCombineRows, bindCombineRows<T>},
    {Op::kLayerNorm, bindLayerNorm<T>},
    {Op::kLayerNormGrad, bindLayerNormGrad<T>},
    {Op::kLayerNormWeightGrad, bindLayerNormWeightGrad<T>},
    {Op::kAttention, bindAttention<T>},
    {Op::kAttentionGrad, bindAttentionGrad<T>},
    {Op::kRepeatRows, bindRepeatRows<T>},
    {Op::kSoftmaxXent, bindSoftmaxXent<T>},
    {Op::kSoftmaxXentGrad, bindSoftmaxXentGrad<T>},
    {Op::kRowMax, bindDividedXent<T>},
    {Op::kXentTerms, bindDividedXent<T>},
    {Op::kXentTermsGrad, bindDividedXent<T>},
    {Op::kXentLoss, bindDividedXent<T>},
    {Op::kXentLossGrad, bindDividedXent<T>},
    {Op::kMseLoss, bindMseLoss<T>},
    {Op::kMseLossGrad, bindMseLossGrad<T>},
    {Op::kBinaryXent, bindBinaryXent<T>},
    {Op::kBinaryXentGrad, bindBinaryXent<T>},
    {Op::kScoreHistogram, bindBinaryXent<T>},
    {Op::kCountCorrect, bindCountCorrect<T>},
    {Op::kSumAll, bindSumAll<T>},
    {Op::kSumSquares, bindSumSquares<T>},
    {Op::kFiniteNorm, bindFiniteNorm<T>},
    {Op::kClipNorm, bindClipNorm<T>},
    {Op::kLossScale, bindLossScale<T>},
    {Op::kSgd, bindSgd<T>},
    {Op::kAdagrad, bindAdagrad<T>},
    {Op::kAdagradRows, bindAdagradRows<T>},
    {Op::kSgdRows, bindSgdRows<T>},
    {Op::kAdam, bindAdam<T>},
    {Op::kEncode, bindEncode<T>},
    {Op::kDecodeSum, bindDecodeSum<T>},
};

template <typename T>
Result<std::unique_ptr<Kernel>> bindAs(const KernelSpec& spec) {
  const auto found = kBinds<T>.find(spec.op);
  if (found == kBinds<T>.end()) return unsupported("reference", spec);
  return found->second(spec);
}

class Reference final : public Backend {
 public:
  std::string_view name() const override { return "reference"; }
  bool supports(Op op, DType dtype) const override { return referenceSupports(op, dtype); }
  Result<std::unique_ptr<Kernel>> bind(const KernelSpec& spec) override {
    return bindReference(spec);
  }
  device::Device* device() override { return nullptr; }
};

}  // namespace

bool referenceSupports(Op op, DType dtype) {
  return hasKernel(op) &&
         (dtype == DType::kF32 || dtype == DType::kF64 || (op == Op::kCast && sizeOf(dtype) == 2));
}

Result<std::unique_ptr<Kernel>> bindReference(const KernelSpec& spec) {
  if (!referenceSupports(spec.op, computeType(spec))) return unsupported("reference", spec);
  if (storesNarrow(spec)) return bindWidened(spec, wideType(spec), bindReference, bindReference);
  if (computeType(spec) == DType::kBf16) return bindCast<Bf16>(spec);
  if (computeType(spec) == DType::kF16) return bindCast<F16>(spec);
  return computeType(spec) == DType::kF64 ? bindAs<double>(spec) : bindAs<float>(spec);
}

std::unique_ptr<Backend> makeReference() { return std::make_unique<Reference>(); }

}  // namespace lockstep::backends
