// Attention of the CPU backend, f32.
#pragma once

#include <memory>

#include "engine/backends/kernel.h"
#include "engine/backends/parallel.h"

namespace lockstep::backends {

// Of kAttention and kAttentionGrad, a sample's head at a time, whose scores stay in the cache;
// where causal, the pairs that do not see one another are left out, but for those within a tile.
std::unique_ptr<Kernel> bindAttention(const Cpu& cpu, const KernelSpec& spec);

}  // namespace lockstep::backends
