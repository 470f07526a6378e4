#include "engine/backends/narrow_storage.h"

#include <algorithm>
#include <vector>

#include "engine/backends/aligned_floats.h"

namespace lockstep::backends {
namespace {

bool isWidened(const KernelSpec& spec, std::size_t input) {
  return ir::readsNarrow(spec.op, input) && ir::isNarrow(spec.inputs[input].type.dtype);
}
bool isRounded(const KernelSpec& spec) {
  return spec.attrs->contains(ir::kStored) && ir::isNarrow(spec.outputs[0].type.dtype);
}

class WidenedKernel final : public Kernel {
 public:
  explicit WidenedKernel(const KernelSpec& spec) : attrs_(*spec.attrs) {
    attrs_.erase(std::string(ir::kStored));
  }
  void run() override {
    for (const auto& step : steps_) step->run();
  }
  std::int64_t workspaceBytes() const override {
    std::int64_t bytes = bytes_;
    for (const auto& step : steps_) bytes += step->workspaceBytes();
    return bytes;
  }

  // Returns memory for such an operand in another type.
  Operand copyOf(const Operand& operand, DType dtype) {
    Operand copy{nullptr, {dtype, operand.type.shape}};
    const std::int64_t floats = (copy.type.bytes() + 3) / 4;
    memory_.push_back(std::make_unique<AlignedFloats>(floats));
    bytes_ += memory_.back()->bytes;
    copy.data = memory_.back()->data;
    return copy;
  }
  Status add(const KernelSpec& spec, const BindKernel& bind) {
    LOCKSTEP_ASSIGN(steps_.emplace_back(), bind(spec));
    return {};
  }
  Status addCast(const KernelSpec& of, const Operand& from, const Operand& to,
                 const BindKernel& bind) {
    const ir::Attrs attrs{{"dtype", std::string(dtypeName(to.type.dtype))}, {"scale", 1.0}};
    KernelSpec cast;
    cast.op = ir::Op::kCast;
    cast.name = of.name;
    cast.attrs = &attrs;
    cast.inputs = {from};
    cast.outputs = {to};
    return add(cast, bind);
  }
  const ir::Attrs& attrs() const { return attrs_; }

 private:
  ir::Attrs attrs_;
  std::vector<std::unique_ptr<AlignedFloats>> memory_;
  std::int64_t bytes_ = 0;
  std::vector<std::unique_ptr<Kernel>> steps_;
};

}  // namespace

bool storesNarrow(const KernelSpec& spec) {
  if (isRounded(spec)) return true;
  for (std::size_t i = 0; i < spec.inputs.size(); ++i)
    if (isWidened(spec, i)) return true;
  return false;
}

DType wideType(const KernelSpec& spec) {
  const auto has = [&](DType dtype) {
    const auto is = [=](const Operand& operand) { return operand.type.dtype == dtype; };
    return std::any_of(spec.inputs.begin(), spec.inputs.end(), is) ||
           std::any_of(spec.outputs.begin(), spec.outputs.end(), is);
  };
  return has(DType::kF64) || !has(DType::kF32) ? DType::kF64 : DType::kF32;
}

Result<std::unique_ptr<Kernel>> bindWidened(const KernelSpec& spec, DType wide,
                                            const BindKernel& bind, const BindKernel& bindCast) {
  auto kernel = std::make_unique<WidenedKernel>(spec);
  KernelSpec inner = spec;
  inner.attrs = &kernel->attrs();
  for (std::size_t i = 0; i < spec.inputs.size(); ++i) {
    if (!isWidened(spec, i)) continue;
    inner.inputs[i] = kernel->copyOf(spec.inputs[i], wide);
    LOCKSTEP_TRY(kernel->addCast(spec, spec.inputs[i], inner.inputs[i], bindCast));
  }
  if (isRounded(spec)) inner.outputs[0] = kernel->copyOf(spec.outputs[0], wide);
  LOCKSTEP_TRY(kernel->add(inner, bind));
  if (isRounded(spec))
    LOCKSTEP_TRY(kernel->addCast(spec, inner.outputs[0], spec.outputs[0], bindCast));
  return std::unique_ptr<Kernel>(std::move(kernel));
}

}  // namespace lockstep::backends
