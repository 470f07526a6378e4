// Attention of the CPU backend, f32.
#pragma once

#include <memory>

#include "engine/backends/cpu/kernels.h"
#include "engine/backends/kernel.h"

namespace lockstep::backends {

// Of kAttention and kAttentionGrad. Scores are made a block of tokens at a time and stay in the cache;
// where causal, the pairs that do not see one another are left out, but for those within a block.
std::unique_ptr<Kernel> bindAttention(const cpu::Kernels& cpu, const KernelSpec& spec);

}  // namespace lockstep::backends
