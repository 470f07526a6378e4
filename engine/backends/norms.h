// Layer norm and batch norm of the CPU backend in f32, with their gradients.
#pragma once

#include <memory>

#include "engine/backends/kernel.h"
#include "engine/backends/parallel.h"

namespace lockstep::backends {

std::unique_ptr<Kernel> bindLayerNorm(const Cpu& cpu, const KernelSpec& spec);
std::unique_ptr<Kernel> bindBatchNorm(const Cpu& cpu, const KernelSpec& spec);

}  // namespace lockstep::backends
