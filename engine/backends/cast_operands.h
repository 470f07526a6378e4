// 16-bit matmul operands (bf16, f16) on the CPU: casts, and matmuls on processors without native
// instructions. Internal to engine/backends.
#pragma once

#include <functional>
#include <memory>

#include "engine/backends/aligned_floats.h"
#include "engine/backends/kernel.h"
#include "engine/backends/parallel.h"

namespace lockstep::backends {

bool has16BitOperands(const KernelSpec& spec);  // of a matmul or convolution

// Binds kMatmul of bf16 operands to cpu::Kernels::gemm16.
std::unique_ptr<Kernel> bindMatmul16(const Cpu& cpu, const KernelSpec& spec);

// Binds an unscaled kCast to 16 bits from f32 or, as a copy, from the same type. Returns null for
// any other cast.
std::unique_ptr<Kernel> bindCastTo16Bits(const Cpu& cpu, const KernelSpec& spec);

// Binds matmuls and convolutions whose operands are widened to f32 before each run, into a buffer
// shared by all kernels of the backend, which run one at a time.
class Widening {
 public:
  using Bind = std::function<Result<std::unique_ptr<Kernel>>(const KernelSpec&)>;
  Result<std::unique_ptr<Kernel>> bind(const Cpu& cpu, const KernelSpec& spec, const Bind& bindF32);

 private:
  // grows to the largest request; earlier buffers live as long as their users
  std::shared_ptr<AlignedFloats> memory_;
};

}  // namespace lockstep::backends
