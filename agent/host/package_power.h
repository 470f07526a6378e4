// PackagePower: what the processors of this machine and their memory draw, from the energy counters
// that Linux's powercap shows of Intel's and AMD's RAPL:
// https://docs.kernel.org/power/powercap/powercap.html. Most systems let only root read them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/clock.h"

namespace lockstep::agent {

class PackagePower {
 public:
  explicit PackagePower(const std::string& folder = "/sys/class/powercap");
  // Returns the mean watts since the previous call; none at the first, and where a counter cannot
  // be read.
  std::optional<double> watts(Nanoseconds now);

 private:
  struct Counter {
    std::string file;
    std::uint64_t range = 0;   // microjoules, after which it begins again
    std::uint64_t before = 0;  // microjoules
  };
  std::vector<Counter> counters_;
  Nanoseconds before_ = 0;  // 0: there is no previous reading
};

}  // namespace lockstep::agent
