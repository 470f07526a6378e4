#include "engine/backends/kernel.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "engine/backends/narrow_storage.h"

namespace lockstep::backends {

using ir::Op;

MatmulShape matmulShape(const KernelSpec& spec) {
  MatmulShape s;
  s.ta = ir::intAttr(*spec.attrs, "ta") != 0;
  s.tb = ir::intAttr(*spec.attrs, "tb") != 0;
  s.relu = ir::textAttr(*spec.attrs, "act") == "relu";
  const Shape& a = spec.inputs[0].type.shape;
  const Shape& y = spec.outputs[0].type.shape;
  s.n = y[0];
  s.o = y[1];
  s.k = a[s.ta ? 0 : 1];
  return s;
}

ConvShape convShape(const KernelSpec& spec) {
  const bool inputGrad = spec.op == Op::kConv2dInputGrad;
  const bool weightGrad = spec.op == Op::kConv2dWeightGrad;
  const Shape& x = (inputGrad ? spec.outputs[0] : spec.inputs[0]).type.shape;
  const Shape& w = (weightGrad ? spec.outputs[0] : spec.inputs[1]).type.shape;
  const Shape& y = (inputGrad    ? spec.inputs[0]
                    : weightGrad ? spec.inputs[1]
                                 : spec.outputs[0])
                       .type.shape;
  ConvShape s{x[0], x[1], x[2], x[3], w[0], w[1], w[3], y[1], y[2]};
  s.stride = ir::intAttr(*spec.attrs, "stride", 1);
  s.pad = ir::intAttr(*spec.attrs, "pad");
  s.relu = ir::textAttr(*spec.attrs, "act") == "relu";
  return s;
}

PoolShape poolShape(const KernelSpec& spec) {
  const Shape& x = spec.inputs[0].type.shape;
  const Shape& y = (spec.op == Op::kMaxPool2d ? spec.outputs[0] : spec.inputs[1]).type.shape;
  return {x[0],
          x[1],
          x[2],
          x[3],
          y[1],
          y[2],
          ir::intAttr(*spec.attrs, "size"),
          ir::intAttr(*spec.attrs, "stride"),
          ir::textAttr(*spec.attrs, "act") == "relu"};
}

AttentionShape attentionShape(const KernelSpec& spec) {
  const Shape& y = (spec.op == Op::kAttention ? spec.outputs[0] : spec.inputs[0]).type.shape;
  AttentionShape s;
  s.tokens = ir::intAttr(*spec.attrs, "tokens");
  s.head = ir::intAttr(*spec.attrs, "head");
  s.causal = ir::intAttr(*spec.attrs, "causal") != 0;
  s.samples = y[0] / s.tokens;
  s.heads = y[1] / s.head;
  return s;
}

BatchNormShape batchNormShape(const KernelSpec& spec) {
  const Shape& x = spec.inputs[0].type.shape;
  BatchNormShape s;
  s.samples = x[0];
  s.channels = x.back();
  s.pixels = elementCount(x) / (s.samples * s.channels);
  const bool moments = spec.op == Op::kBatchMoments, weights = spec.op == Op::kBatchNormWeightGrad;
  s.groups = (moments ? spec.outputs[0] : spec.inputs[weights ? 2 : 4]).type.shape[0];
  return s;
}

AdamOptions adamOptions(const ir::Attrs& attrs) {
  return {ir::floatAttr(attrs, "beta1", 0.9), ir::floatAttr(attrs, "beta2", 0.999),
          ir::floatAttr(attrs, "eps", 1e-8), ir::floatAttr(attrs, "weight_decay")};
}

namespace {

class UpdateIfFinite final : public Kernel {
 public:
  UpdateIfFinite(const KernelSpec& spec, std::unique_ptr<Kernel> update)
      : update_(std::move(update)) {
    const std::size_t after =
        spec.op == Op::kAdam ? 3 : 2;  // norm, lr and, for Adam, t are the last operands
    norm_ = spec.inputs[spec.inputs.size() - after];
    const std::vector<int>& before = ir::info(spec.op).inPlace;
    for (std::size_t i = 0; i < spec.outputs.size(); ++i)
      kept_.push_back({spec.outputs[i], spec.inputs[static_cast<std::size_t>(before[i])]});
  }
  void run() override {
    const bool skips = norm_.type.dtype == DType::kF64 ? *static_cast<const double*>(norm_.data) < 0
                                                       : *static_cast<const float*>(norm_.data) < 0;
    if (!skips) return update_->run();
    for (const auto& [to, from] : kept_)
      if (to.data != from.data)
        std::memcpy(to.data, from.data, static_cast<std::size_t>(to.type.bytes()));
  }
  std::int64_t workspaceBytes() const override { return update_->workspaceBytes(); }

 private:
  struct Kept {
    Operand to, from;
  };
  std::unique_ptr<Kernel> update_;
  Operand norm_;
  std::vector<Kept> kept_;
};

}  // namespace

std::unique_ptr<Kernel> updateIfFinite(const KernelSpec& spec, std::unique_ptr<Kernel> update) {
  return std::make_unique<UpdateIfFinite>(spec, std::move(update));
}

DType computeType(const KernelSpec& spec) {
  if (storesNarrow(spec)) {
    const auto isDouble = [](const Operand& x) { return x.type.dtype == DType::kF64; };
    return std::any_of(spec.inputs.begin(), spec.inputs.end(), isDouble) ||
                   std::any_of(spec.outputs.begin(), spec.outputs.end(), isDouble)
               ? DType::kF64
               : DType::kF32;
  }
  const bool floats = !spec.outputs.empty() && isFloat(spec.outputs[0].type.dtype);
  return floats ? spec.outputs[0].type.dtype : DType::kF32;
}

Error unsupported(std::string_view backend, const KernelSpec& spec) {
  const DType dtype = spec.outputs.empty() ? DType::kF32 : spec.outputs[0].type.dtype;
  Error error =
      makeError(Code::kFailedPrecondition, "{}: the {} backend has no kernel for {} in {}",
                spec.name, backend, ir::info(spec.op).name, dtypeName(dtype));
  error.next = "use the reference backend";
  return error;
}

}  // namespace lockstep::backends
