// The place of a fraction of a file.
#pragma once

#include <algorithm>
#include <cstdint>

namespace lockstep::data {

// Returns the first of `count` rows or bytes at or after the fraction.
inline std::int64_t placeOf(double fraction, std::int64_t count) {
  return std::clamp(static_cast<std::int64_t>(fraction * static_cast<double>(count)),
                    std::int64_t{0}, count);
}

}  // namespace lockstep::data
