// Measures the matmul rate and memory bandwidth of a backend, and the write rate of a disk, by
// repeated runs of one operation. Not thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/backends/backend.h"

namespace lockstep::agent {

// Statistics of one run over five windows; of a disk, over all runs.
struct RunTime {
  double median = 0, least = 0;  // seconds
};

// Measures y = a·b of side × side matrices, with operands of `operandDtype` and f32 accumulation.
// Errors: the backend has no such matmul.
Result<RunTime> timeProduct(backends::Backend& backend, DType operandDtype, std::int64_t side,
                            double seconds, bool tf32 = false);

// Operations on arrays of f32 in memory.
struct MemoryRun {
  std::string_view name;  // "read", "scale", "add"
  ir::Op op;
  int arrays = 0;  // read and written
};
inline constexpr MemoryRun kMemoryRuns[] = {
    {"read", ir::Op::kSumSquares, 1}, {"scale", ir::Op::kScale, 2}, {"add", ir::Op::kAdd, 3}};
inline constexpr const MemoryRun& kMemoryAdd = kMemoryRuns[2];

// Measures an operation on arrays of `bytes` each.
Result<RunTime> timeMemory(backends::Backend& backend, const MemoryRun& run, std::int64_t bytes,
                           double seconds);

// Measures writing a file of `bytes` in the folder, to the disk itself, at most 16 times. Nothing
// stays, whatever ends the process. Errors: those of the file system.
Result<RunTime> timeDiskWrite(const std::string& folder, std::int64_t bytes, double seconds);

// Measures copies within the backend's memory, or between its device and the host. Errors: the
// backend has no device.
enum class Copied : std::uint8_t { kWithin, kToDevice, kFromDevice };
Result<RunTime> timeCopy(backends::Backend& backend, Copied way, std::int64_t bytes,
                         double seconds);

}  // namespace lockstep::agent
