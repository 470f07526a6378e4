// Zero-filled memory aligned to 64 bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "engine/base/status.h"

namespace lockstep::runtime {

struct FreeDeleter {
  std::size_t mapped = 0;  // bytes, if it is a mapping of its own
  void operator()(std::byte* memory) const;
};
using AlignedMemory = std::unique_ptr<std::byte[], FreeDeleter>;

// Allocates memory whose pages are already populated, so that first writes do not fault. Errors:
// kResourceExhausted, naming `what` it is for and its size.
Result<AlignedMemory> allocateAligned(std::int64_t bytes, std::string_view what);

}  // namespace lockstep::runtime
