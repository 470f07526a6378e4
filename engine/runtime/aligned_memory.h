// Zero-filled memory aligned to 64 bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "engine/base/status.h"

namespace lockstep::runtime {

struct FreeDeleter {
  void operator()(std::byte* memory) const { std::free(memory); }
};
using AlignedMemory = std::unique_ptr<std::byte[], FreeDeleter>;

inline AlignedMemory allocateAligned(std::int64_t bytes) {
  const std::size_t rounded = (static_cast<std::size_t>(bytes) + 63) / 64 * 64;
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(64, rounded == 0 ? 64 : rounded));
  LOCKSTEP_CHECK(memory != nullptr, "out of memory: {} bytes", bytes);
  std::memset(memory, 0, rounded == 0 ? 64 : rounded);
  return AlignedMemory(memory);
}

}  // namespace lockstep::runtime
