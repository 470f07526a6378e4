// Matmuls and convolutions of the CPU backend, f32.
#pragma once

#include <memory>

#include "engine/backends/kernel.h"
#include "engine/backends/parallel.h"

namespace lockstep::backends {

std::unique_ptr<Kernel> bindMatmul(const Cpu& cpu, const KernelSpec& spec);
// Binds any of the three conv2d ops.
std::unique_ptr<Kernel> bindConv(const Cpu& cpu, const KernelSpec& spec);

}  // namespace lockstep::backends
