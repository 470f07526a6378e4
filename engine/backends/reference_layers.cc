// Kernels of the reference backend of matmul, convolution, pooling and batch normalization.
#include "engine/backends/reference_batch_norm.h"
#include "engine/backends/reference_binds.h"
#include "engine/backends/reference_kernels.h"

namespace lockstep::backends::reference {

using ir::Op;

namespace {

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

}  // namespace

template <typename T>
Binds layerBinds() {
  return {
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
  };
}
template Binds layerBinds<float>();
template Binds layerBinds<double>();

}  // namespace lockstep::backends::reference
