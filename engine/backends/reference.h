// The reference backend: plain single-threaded loops in f32 and f64 that accumulate in f64; every
// other backend is tested against it. Serves as the readable definition of all ops.
#pragma once

#include "engine/backends/backend.h"

namespace lockstep::backends {

std::unique_ptr<Backend> makeReference();

// Whether makeReference() supports the op in this dtype, and its kernel; other backends fall back
// on it for ops without a faster kernel.
bool referenceSupports(ir::Op op, DType dtype);
Result<std::unique_ptr<Kernel>> bindReference(const KernelSpec& spec);

}  // namespace lockstep::backends
