// Measured values, rounded to what their measurement can tell. Decimal numbers of few digits take a
// quarter of the room in the history, or less.
#pragma once

#include <algorithm>
#include <cmath>

namespace lockstep::agent {

// A share of at most 1, in 1/10,000.
inline double inParts(double share) { return std::round(1e4 * std::min(share, 1.0)) / 1e4; }

// A rate, ≥ 0, to four significant digits; in whole units where it is less than 10,000.
inline double roundedRate(double rate) {
  double unit = 1;
  for (; rate / unit >= 1e4; unit *= 10) {
    if (unit > 1e15) return rate;
  }
  return std::round(rate / unit) * unit;
}

}  // namespace lockstep::agent
