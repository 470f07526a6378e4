// Kernels of the reference backend of embedding, layer normalization and attention.
#include "engine/backends/reference_sequence.h"

#include <utility>
#include <vector>

#include "engine/backends/reference_binds.h"
#include "engine/backends/rows.h"

namespace lockstep::backends::reference {

using ir::Op;

namespace {

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

}  // namespace

template <typename T>
Binds sequenceBinds() {
  return {
      {Op::kEmbedding, bindEmbedding<T>},
      {Op::kEmbeddingGrad, bindEmbeddingGrad<T>},
      {Op::kUnique, bindUnique<T>},
      {Op::kCombineRows, bindCombineRows<T>},
      {Op::kLayerNorm, bindLayerNorm<T>},
      {Op::kLayerNormGrad, bindLayerNormGrad<T>},
      {Op::kLayerNormWeightGrad, bindLayerNormWeightGrad<T>},
      {Op::kAttention, bindAttention<T>},
      {Op::kAttentionGrad, bindAttentionGrad<T>},
  };
}
template Binds sequenceBinds<float>();
template Binds sequenceBinds<double>();

}  // namespace lockstep::backends::reference
