// Zero-filled memory aligned to 64 bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace lockstep::runtime {

struct FreeDeleter {
  std::size_t mapped = 0;  // bytes, where it is a mapping of its own
  void operator()(std::byte* memory) const;
};
using AlignedMemory = std::unique_ptr<std::byte[], FreeDeleter>;

// All of it is there when it is given: nothing is left for whoever first writes to it.
AlignedMemory allocateAligned(std::int64_t bytes);

}  // namespace lockstep::runtime
