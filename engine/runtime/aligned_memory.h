// Zero-filled memory aligned to 64 bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "engine/base/status.h"

namespace lockstep::runtime {

struct FreeDeleter {
  std::size_t mapped = 0;  // bytes, where it is a mapping of its own
  void operator()(std::byte* memory) const;
};
using AlignedMemory = std::unique_ptr<std::byte[], FreeDeleter>;

// All of it is there when it is given: nothing is left for whoever first writes to it.
// kResourceExhausted, naming `what` it is for and how many bytes, where the system gives no such
// memory.
Result<AlignedMemory> allocateAligned(std::int64_t bytes, std::string_view what);

}  // namespace lockstep::runtime
