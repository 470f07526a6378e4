// Factors of products in 16 bits, bf16 or f16: their casts, and products by processors that have no
// instructions for them. Internal to engine/backends.
#pragma once

#include <functional>
#include <memory>

#include "engine/backends/aligned_floats.h"
#include "engine/backends/kernel.h"
#include "engine/backends/parallel.h"

namespace lockstep::backends {

bool hasNarrowFactors(const KernelSpec& spec);  // of a product

// kMatmul of bf16 factors by cpu::Kernels::gemm16.
std::unique_ptr<Kernel> bindMatmul16(const Cpu& cpu, const KernelSpec& spec);

// kCast to 16 bits, unscaled, of f32 or, which copies it, of the same type. Null: of another.
std::unique_ptr<Kernel> bindNarrowCast(const Cpu& cpu, const KernelSpec& spec);

// Products whose factors are widened to f32 before each play, into memory that all of a backend's
// share: they are played one after another.
class Widening {
 public:
  using Bind = std::function<Result<std::unique_ptr<Kernel>>(const KernelSpec&)>;
  Result<std::unique_ptr<Kernel>> bind(const Cpu& cpu, const KernelSpec& spec, const Bind& bindF32);

 private:
  // the largest so far; smaller ones live as long as who uses them
  std::shared_ptr<AlignedFloats> memory_;
};

}  // namespace lockstep::backends
