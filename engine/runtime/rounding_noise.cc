#include "engine/runtime/rounding_noise.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "engine/backends/narrow_storage.h"
#include "engine/base/random.h"

namespace lockstep::runtime {
namespace {

using backends::Kernel;
using backends::KernelSpec;
using ir::Op;

// What is the same in whatever order its operands were made. A pool's gradient asks which of its
// inputs is the greatest: it has to find it.
bool isExact(Op op) {
  switch (op) {
    case Op::kFill:
    case Op::kRandom:
    case Op::kPartialToLocal:
    case Op::kSelectIfFinite:
    case Op::kConcat:
    case Op::kColumns:
    case Op::kMaxPool2d:
    case Op::kRepeatRows:
    case Op::kRowMax:
    case Op::kCountCorrect:
    case Op::kFiniteNorm:
    case Op::kLossScale:
    case Op::kSgd:
    case Op::kSgdRows:
    case Op::kAdagrad:
    case Op::kAdagradRows:
    case Op::kAdam:
    case Op::kEncode:
      return true;
    default:
      return false;
  }
}

class NoisyKernel final : public Kernel {
 public:
  NoisyKernel(std::unique_ptr<Kernel> inner, const KernelSpec& spec, const RoundingNoise& noise,
              std::uint64_t key)
      : inner_(std::move(inner)), noise_(noise), state_(key | 1) {
    for (const backends::Operand& output : spec.outputs) {
      const auto count = static_cast<std::size_t>(output.type.count());
      if (output.type.dtype == DType::kF32)
        singles_.emplace_back(static_cast<float*>(output.data), count);
      if (output.type.dtype == DType::kF64)
        doubles_.emplace_back(static_cast<double*>(output.data), count);
    }
  }
  void run() override {
    inner_->run();
    for (const auto& each : singles_) disturb(each);
    for (const auto& each : doubles_) disturb(each);
  }
  std::int64_t workspaceBytes() const override { return inner_->workspaceBytes(); }

 private:
  double uniform() {  // in [0, 1): xorshift64* (Vigna 2016)
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return static_cast<double>((state_ * 0x2545f4914f6cdd1dULL) >> 11) * 0x1p-53;
  }
  template <typename T>
  void disturb(std::span<T> values) {
    for (T& value : values) {
      double by = noise_.relative * (2 * uniform() - 1);
      if (noise_.flipped > 0 && uniform() < noise_.flipped)
        by = uniform() < 0.5 ? noise_.flip : -noise_.flip;
      value = static_cast<T>(static_cast<double>(value) * (1 + by));
    }
  }

  std::unique_ptr<Kernel> inner_;
  RoundingNoise noise_;
  std::uint64_t state_;
  std::vector<std::span<float>> singles_;
  std::vector<std::span<double>> doubles_;
};

class NoisyBackend final : public backends::Backend {
 public:
  NoisyBackend(std::unique_ptr<backends::Backend> inner, const RoundingNoise& noise)
      : inner_(std::move(inner)), noise_(noise) {}
  std::string_view name() const override { return inner_->name(); }
  bool supports(Op op, DType dtype) const override { return inner_->supports(op, dtype); }
  Result<std::unique_ptr<Kernel>> bind(const KernelSpec& spec) override {
    if (backends::storesNarrow(spec)) {  // what it computes is off before it is rounded
      const DType wide = backends::wideType(spec);
      return backends::bindWidened(
          spec, inner_->supports(spec.op, wide) ? wide : DType::kF32,
          [this](const KernelSpec& one) { return bind(one); },
          [this](const KernelSpec& one) { return inner_->bind(one); });
    }
    LOCKSTEP_ASSIGN(std::unique_ptr<Kernel> kernel, inner_->bind(spec));
    if (isExact(spec.op)) return kernel;
    return std::unique_ptr<Kernel>(std::make_unique<NoisyKernel>(
        std::move(kernel), spec, noise_, randomBits(noise_.seed, ++kernels_)));
  }
  device::Device* device() override { return inner_->device(); }

 private:
  std::unique_ptr<backends::Backend> inner_;
  RoundingNoise noise_;
  std::uint64_t kernels_ = 0;
};

}  // namespace

std::unique_ptr<backends::Backend> withRoundingNoise(std::unique_ptr<backends::Backend> inner,
                                                     const RoundingNoise& noise) {
  return std::make_unique<NoisyBackend>(std::move(inner), noise);
}

}  // namespace lockstep::runtime
