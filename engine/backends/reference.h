// The reference backend: plain loops in f32 and f64, one thread. Sums are accumulated in f64, so
// every other backend is held against it. The formulas of all ops stand here to be read.
#pragma once

#include "engine/backends/backend.h"

namespace lockstep::backends {

std::unique_ptr<Backend> makeReference();

// Whether makeReference() binds the op in this dtype, and the kernel itself: what another backend
// takes for the ops it has no faster kernel for.
bool referenceSupports(ir::Op op, DType dtype);
Result<std::unique_ptr<Kernel>> bindReference(const KernelSpec& spec);

}  // namespace lockstep::backends
