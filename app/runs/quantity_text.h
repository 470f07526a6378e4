// Quantities as a preview tells them.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>

namespace lockstep::app {

// Of a longer number all digits before the point: {:.3g} would write 1234 as 1.23e+03.
inline std::string threeDigits(double value) {
  return value < 999.5 ? fmt::format("{:.3g}", value) : fmt::format("{:.0f}", value);
}
inline std::string mebibytes(std::int64_t bytes) {
  return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20));
}
inline std::string kibibytes(std::int64_t bytes) {
  return fmt::format("{:.1f} KiB", static_cast<double>(bytes) / (1 << 10));
}
// Bytes per second.
inline std::string perSecond(double rate) {
  if (rate >= 1e9) return fmt::format("{:.1f} GB/s", rate / 1e9);
  return rate >= 1e6 ? fmt::format("{:.1f} MB/s", rate / 1e6)
                     : fmt::format("{:.1f} kB/s", rate / 1e3);
}
inline std::string milliseconds(double seconds) { return fmt::format("{:.3f} ms", seconds * 1e3); }

}  // namespace lockstep::app
