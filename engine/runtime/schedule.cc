#include "engine/runtime/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace lockstep::runtime {

double Schedule::at(std::int64_t step) const {
  if (step <= warmup) return peak * static_cast<double>(step) / static_cast<double>(warmup);
  const std::int64_t done = step - 1 - warmup;  // steps since the peak
  const double whole = static_cast<double>(std::max<std::int64_t>(steps - warmup, 1));
  const double part = std::min(static_cast<double>(done) / whole, 1.0);
  switch (kind) {
    case Kind::kConstant:
      return peak;
    case Kind::kStep: {
      const std::int64_t drops = done / every;
      return peak * std::pow(factor, static_cast<double>(drops));
    }
    case Kind::kCosine:
      return last + (peak - last) * 0.5 * (1 + std::cos(std::numbers::pi * part));
    case Kind::kLinear:
      return peak + (last - peak) * part;
  }
  return peak;
}

}  // namespace lockstep::runtime
