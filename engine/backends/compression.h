// Gradient compression: f32 kernels of the CPU backend, and the payload layout that both backends
// share.
#pragma once

#include <memory>

#include "engine/backends/cpu/kernels.h"
#include "engine/backends/kernel.h"

namespace lockstep::backends {

struct CodingShape {
  ir::Coding coding{};
  std::int64_t count = 0, kept = 0;  // elements of one payload
  std::int64_t payload = 0;          // its bytes
  std::int64_t payloads = 1;
  // Offsets within a payload for element `first`, a multiple of ir::kScaledTogether.
  std::int64_t scaleAt(std::int64_t first) const { return first / ir::kScaledTogether * 4; }
  std::int64_t valueAt(std::int64_t first) const {
    return coding == ir::Coding::kInt8 ? scaleAt(count + ir::kScaledTogether - 1) + first
                                       : 2 * first;
  }
};
CodingShape codingShape(const KernelSpec& spec);  // of kEncode and kDecodeSum

// Binds kEncode and kDecodeSum.
std::unique_ptr<Kernel> bindCoding(const cpu::Kernels& cpu, const KernelSpec& spec);

}  // namespace lockstep::backends
