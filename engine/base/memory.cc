#include "engine/base/memory.h"

namespace lockstep {

Error outOfMemory(const Message& what, std::int64_t bytes) {
  Error error;
  error.code = Code::kResourceExhausted;
  constexpr double kMiB = 1 << 20, kGiB = 1 << 30;
  const auto size = static_cast<double>(bytes);
  const std::string amount = bytes <= 0     ? std::string()
                             : size >= kGiB ? fmt::format(": {:.2f} GiB", size / kGiB)
                             : size >= kMiB ? fmt::format(": {:.1f} MiB", size / kMiB)
                                            : fmt::format(": {} bytes", bytes);
  error.what = message("out of memory for {}{}", what, amount);
  error.why = "the system has no more memory for this process";
  error.next =
      "free memory on the node, or use less: fewer ranks there, a smaller batch or model, or "
      "zero-3";
  return error;
}

}  // namespace lockstep
