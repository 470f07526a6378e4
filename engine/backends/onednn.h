// The CPU backend in f32 on plain layouts (row-major, NHWC, HWIO): nothing is reordered. Kernels of
// our own for what the examples train with, oneDNN primitives for large products and convolutions
// where there are several threads, the reference loops for the rest. f64 is not supported.
//
// Threads: kernels run on the calling thread; with BackendOptions.threads > 1 oneDNN adds its
// OpenMP team. On one thread run() allocates nothing.
#pragma once

#include "engine/backends/backend.h"
#include "engine/backends/cpu/kernels.h"

namespace lockstep::backends {

Result<std::unique_ptr<Backend>> makeOneDnn(const BackendOptions& options,
                                            const cpu::Kernels& kernels = cpu::best());

}  // namespace lockstep::backends
