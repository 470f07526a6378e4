// How fast a backend multiplies matrices and moves memory, each run alone again and again, on
// its device or here. Threads: one at a time.
#pragma once

#include <cstdint>
#include <string_view>

#include "engine/backends/backend.h"

namespace lockstep::agent {

// Of one run, by five windows.
struct RunTime {
  double median = 0, least = 0;  // seconds
};

// y = a·b, all of side × side, operands of `operandDtype` and sums in f32. Errors: a backend that
// has no such product.
Result<RunTime> timeProduct(backends::Backend& backend, DType operandDtype, std::int64_t side,
                            double seconds, bool tf32 = false);

// What moves over arrays of f32, from and to memory.
struct MemoryRun {
  std::string_view name;  // "read", "scale", "add"
  ir::Op op;
  int arrays = 0;  // read and written
};
inline constexpr MemoryRun kMemoryRuns[] = {
    {"read", ir::Op::kSumSquares, 1}, {"scale", ir::Op::kScale, 2}, {"add", ir::Op::kAdd, 3}};
inline constexpr const MemoryRun& kMemoryAdd = kMemoryRuns[2];

// Each array has `bytes`.
Result<RunTime> timeMemory(backends::Backend& backend, const MemoryRun& run, std::int64_t bytes,
                           double seconds);

// Within the backend's memory, or between its device and the host. Errors: a backend without a
// device, where one is named.
enum class Copied : std::uint8_t { kWithin, kToDevice, kFromDevice };
Result<RunTime> timeCopy(backends::Backend& backend, Copied way, std::int64_t bytes,
                         double seconds);

}  // namespace lockstep::agent
