// The CPU backend in f32 on plain layouts (row-major, NHWC, HWIO): nothing is reordered. Kernels of
// our own for what the examples train with, oneDNN primitives for large products where there are
// several threads, the reference loops for the rest. f64 is not supported.
//
// Threads: with BackendOptions.threads > 1 the calling thread is joined by an OpenMP team. Our own
// kernels allocate nothing in run(), and give the same bits whatever the number of threads.
#pragma once

#include "engine/backends/backend.h"
#include "engine/backends/cpu/kernels.h"

namespace lockstep::backends {

Result<std::unique_ptr<Backend>> makeOneDnn(const BackendOptions& options,
                                            const cpu::Kernels& kernels = cpu::best());

}  // namespace lockstep::backends
