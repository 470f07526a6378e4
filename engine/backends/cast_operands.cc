#include "engine/backends/cast_operands.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace lockstep::backends {
namespace {

// Index of a 16-bit type in cpu::Kernels.
std::size_t formatOf(DType type) {
  return static_cast<std::size_t>(type == DType::kF16 ? ir::Coding::kFp16 : ir::Coding::kBf16);
}
constexpr std::int64_t kLanes = 32;  // a cut at a multiple leaves no vector in two parts

struct Widened {
  std::size_t format = 0;
  const std::byte* from = nullptr;
  float* to = nullptr;
  std::int64_t count = 0;
};

class WidenedKernel final : public Kernel {
 public:
  WidenedKernel(const Cpu& cpu, std::array<Widened, 2> operands,
                std::shared_ptr<AlignedFloats> memory, std::int64_t ownBytes,
                std::unique_ptr<Kernel> matmul)
      : cpu_(cpu),
        operands_(operands),
        memory_(std::move(memory)),
        ownBytes_(ownBytes),
        matmul_(std::move(matmul)) {}
  void run() override {
    for (const Widened& operand : operands_) {
      const int parts = cpu_.parts(operand.count, kMinElements);
      forParts(parts, [&](int i) {
        const Part part = partOf(operand.count, i, parts, kLanes);
        cpu_.kernels.decode[operand.format](part.count, nullptr, operand.from + 2 * part.first,
                                            operand.to + part.first);
      });
    }
    matmul_->run();
  }
  std::int64_t workspaceBytes() const override { return ownBytes_ + matmul_->workspaceBytes(); }

 private:
  const Cpu cpu_;
  const std::array<Widened, 2> operands_;
  const std::shared_ptr<AlignedFloats> memory_;
  const std::int64_t ownBytes_;  // bytes of memory_ allocated for this kernel
  const std::unique_ptr<Kernel> matmul_;
};

}  // namespace

bool has16BitOperands(const KernelSpec& spec) { return sizeOf(spec.inputs[0].type.dtype) == 2; }

std::unique_ptr<Kernel> bindMatmul16(const Cpu& cpu, const KernelSpec& spec) {
  const MatmulShape s = matmulShape(spec);
  const cpu::Gemm16 whole{
      .rows = s.n,
      .k = s.k,
      .cols = s.o,
      .a = static_cast<const std::uint16_t*>(spec.inputs[0].data),
      .aRow = s.ta ? 1 : s.k,
      .aK = s.ta ? s.n : 1,
      .b = static_cast<const std::uint16_t*>(spec.inputs[1].data),
      .bK = s.tb ? 1 : s.o,
      .bColumn = s.tb ? s.k : 1,
      .c = static_cast<float*>(spec.outputs[0].data),
      .ldc = s.o,
      .bias = spec.inputs.size() > 2 ? static_cast<const float*>(spec.inputs[2].data) : nullptr,
      .relu = s.relu};
  const int parts = cpu.parts(s.n * s.k * s.o, kMinMultiplyAdds);
  return makeKernel([=, gemm = cpu.kernels.gemm16] {
    forParts(parts, [&](int i) {
      const Part part = partOf(s.o, i, parts, kLanes);
      cpu::Gemm16 mine = whole;
      mine.cols = part.count;
      mine.b += part.first * whole.bColumn;
      mine.c += part.first;
      if (mine.bias != nullptr) mine.bias += part.first;
      gemm(mine);
    });
  });
}

std::unique_ptr<Kernel> bindCastTo16Bits(const Cpu& cpu, const KernelSpec& spec) {
  const DType from = spec.inputs[0].type.dtype, to = computeType(spec);
  if (sizeOf(to) != 2 || (from != DType::kF32 && from != to) ||
      ir::floatAttr(*spec.attrs, "scale", 1.0) != 1.0)
    return nullptr;
  const std::int64_t n = spec.outputs[0].type.count();
  if (from == to)
    return makeKernel(
        [x = spec.inputs[0].data, y = spec.outputs[0].data, bytes = spec.outputs[0].type.bytes()] {
          std::memcpy(y, x, static_cast<std::size_t>(bytes));
        });
  const int parts = cpu.parts(n, kMinElements);
  return makeKernel([=, x = static_cast<const float*>(spec.inputs[0].data),
                     y = static_cast<std::byte*>(spec.outputs[0].data),
                     cast = cpu.kernels.castTo16Bits[formatOf(to)]] {
    forParts(parts, [&](int i) {
      const Part part = partOf(n, i, parts, kLanes);
      cast(part.count, x + part.first, y + 2 * part.first);
    });
  });
}

Result<std::unique_ptr<Kernel>> Widening::bind(const Cpu& cpu, const KernelSpec& spec,
                                               const Bind& bindF32) {
  const auto padded = [](const Operand& one) {
    return (one.type.count() + kLanes - 1) / kLanes * kLanes;
  };
  const std::int64_t first = padded(spec.inputs[0]), needed = first + padded(spec.inputs[1]);
  const std::int64_t before = memory_ ? memory_->bytes : 0;
  std::int64_t ownBytes = 0;
  if (needed * static_cast<std::int64_t>(sizeof(float)) > before) {
    // Doubles each time, so that all buffers together are at most twice the largest.
    memory_ = std::make_shared<AlignedFloats>(
        std::max(needed, 2 * before / static_cast<std::int64_t>(sizeof(float))));
    ownBytes = memory_->bytes;
  }
  KernelSpec wide = spec;
  std::array<Widened, 2> operands;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    operands[i] = {formatOf(spec.inputs[i].type.dtype),
                   static_cast<const std::byte*>(spec.inputs[i].data),
                   memory_->data + (i == 0 ? 0 : first), spec.inputs[i].type.count()};
    wide.inputs[i] = {operands[i].to, {DType::kF32, spec.inputs[i].type.shape}};
  }
  LOCKSTEP_ASSIGN(std::unique_ptr<Kernel> matmul, bindF32(wide));
  return std::unique_ptr<Kernel>(
      std::make_unique<WidenedKernel>(cpu, operands, memory_, ownBytes, std::move(matmul)));
}

}  // namespace lockstep::backends
