// Operands stored in 16 bits by an op that computes in f32 (ir::OpInfo::narrowInputs, ir::kStored),
// for backends whose kernels read and write f32 alone. Internal to engine/backends and its
// wrappers.
#pragma once

#include <functional>
#include <memory>

#include "engine/backends/backend.h"

namespace lockstep::backends {

bool storesNarrow(const KernelSpec& spec);  // whether it has such operands

// Returns the type that such an op computes in: f64 where an operand is, or where none is f32,
// since then nothing but 16 bits is lost by it.
DType wideType(const KernelSpec& spec);

// Binds the op on copies of these operands in `wide`: each run widens the inputs, runs the kernel
// from `bind` and rounds the output, by kernels of kCast from `bindCast`; so that the result has
// the bits of a cast of what the op computes. The copies are the kernel's workspace.
using BindKernel = std::function<Result<std::unique_ptr<Kernel>>(const KernelSpec&)>;
Result<std::unique_ptr<Kernel>> bindWidened(const KernelSpec& spec, DType wide,
                                            const BindKernel& bind, const BindKernel& bindCast);

}  // namespace lockstep::backends
