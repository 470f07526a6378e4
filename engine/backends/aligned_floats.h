// Workspaces of kernels and tables of operand offsets. Internal to engine/backends.
#pragma once

#include <cstdint>
#include <cstring>
#include <new>
#include <vector>

namespace lockstep::backends {

struct AlignedFloats {
  explicit AlignedFloats(std::int64_t count)
      : data(static_cast<float*>(::operator new (static_cast<std::size_t>(count) * sizeof(float),
                                                 std::align_val_t{64}))),
        bytes(count * static_cast<std::int64_t>(sizeof(float))) {
    std::memset(data, 0, static_cast<std::size_t>(bytes));
  }
  ~AlignedFloats() { ::operator delete (data, std::align_val_t{64}); }
  AlignedFloats(const AlignedFloats&) = delete;
  AlignedFloats& operator=(const AlignedFloats&) = delete;
  float* const data;
  const std::int64_t bytes;
};

using Offsets = std::vector<std::int64_t>;
inline std::int64_t bytesOf(const Offsets& offsets) {
  return static_cast<std::int64_t>(offsets.size() * sizeof(std::int64_t));
}

}  // namespace lockstep::backends
