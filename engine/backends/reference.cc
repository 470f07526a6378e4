#include "engine/backends/reference.h"

#include "engine/backends/narrow_storage.h"
#include "engine/backends/reference_binds.h"
#include "engine/backends/reference_compression.h"

namespace lockstep::backends {
namespace {

using ir::Op;
using reference::Binds;
using reference::in;
using reference::out;

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

// The kernel of each op.
template <typename T>
const Binds kBinds = [] {
  Binds all{
      {Op::kCast, bindCast<T>},
  };
  for (const Binds& part : {reference::elementBinds<T>(), reference::layerBinds<T>(),
                            reference::sequenceBinds<T>(), reference::lossBinds<T>(),
                            reference::optimizerBinds<T>(), reference::compressionBinds<T>()})
    all.insert(part.begin(), part.end());
  return all;
}();

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
