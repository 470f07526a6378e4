// The CPU backend: f32 on plain layouts (row-major, NHWC, HWIO), without reordering. Uses its own
// kernels for common ops, oneDNN primitives for large matmuls on several threads, and the reference
// loops for the rest. f64 is not supported.
//
// Threads: with BackendOptions.threads > 1 the calling thread leads an OpenMP team. Own kernels
// allocate nothing in run() and are bit-identical for any number of threads.
#pragma once

#include "engine/backends/backend.h"
#include "engine/backends/cpu/kernels.h"

namespace lockstep::backends {

Result<std::unique_ptr<Backend>> makeOneDnn(const BackendOptions& options,
                                            const cpu::Kernels& kernels = cpu::best());

}  // namespace lockstep::backends
