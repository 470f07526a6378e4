// Attention of the CPU backend, f32.
#pragma once

#include <memory>

#include "engine/backends/kernel.h"
#include "engine/backends/parallel.h"

namespace lockstep::backends {

// Binds kAttention and kAttentionGrad. Works on one sample and head at a time, whose scores stay in
// cache. Causal attention skips masked pairs, except those within a tile.
std::unique_ptr<Kernel> bindAttention(const Cpu& cpu, const KernelSpec& spec);

}  // namespace lockstep::backends
