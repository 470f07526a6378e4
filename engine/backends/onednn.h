// The CPU backend in f32: oneDNN primitives on plain layouts (row-major, NHWC, HWIO) and kernels of
// our own where oneDNN would have to reorder or is slower. Ops it has no kernel for run on the
// reference loops; f64 is not supported.
//
// Threads: kernels run on the calling thread; with BackendOptions.threads > 1 oneDNN adds its
// OpenMP team. Bind and run on one thread.
#pragma once

#include "engine/backends/backend.h"
#include "engine/backends/cpu/kernels.h"

namespace lockstep::backends {

Result<std::unique_ptr<Backend>> makeOneDnn(const BackendOptions& options,
                                            const cpu::Kernels& kernels = cpu::best());

}  // namespace lockstep::backends
