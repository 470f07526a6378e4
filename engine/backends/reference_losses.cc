// Kernels of the reference backend of losses and metrics.
#include <cmath>

#include "engine/backends/reference_binds.h"
#include "engine/backends/reference_kernels.h"

namespace lockstep::backends::reference {

using ir::Op;

namespace {

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

}  // namespace

template <typename T>
Binds lossBinds() {
  return {
      {Op::kSoftmaxXent, bindSoftmaxXent<T>},   {Op::kSoftmaxXentGrad, bindSoftmaxXentGrad<T>},
      {Op::kRowMax, bindDividedXent<T>},        {Op::kXentTerms, bindDividedXent<T>},
      {Op::kXentTermsGrad, bindDividedXent<T>}, {Op::kXentLoss, bindDividedXent<T>},
      {Op::kXentLossGrad, bindDividedXent<T>},  {Op::kMseLoss, bindMseLoss<T>},
      {Op::kMseLossGrad, bindMseLossGrad<T>},   {Op::kBinaryXent, bindBinaryXent<T>},
      {Op::kBinaryXentGrad, bindBinaryXent<T>}, {Op::kScoreHistogram, bindBinaryXent<T>},
      {Op::kCountCorrect, bindCountCorrect<T>}, {Op::kSumAll, bindSumAll<T>},
  };
}
template Binds lossBinds<float>();
template Binds lossBinds<double>();

}  // namespace lockstep::backends::reference
