// SteadyWall: a wall clock that later changes of the node's clock do not affect: the wall time at
// the start plus the time elapsed since, including suspend.
#pragma once

#include <algorithm>
#include <ctime>

#include "engine/base/clock.h"

namespace lockstep::agent {

class SteadyWall {
 public:
  // Starts at `wall`, or at `notBefore` if that is later.
  explicit SteadyWall(Nanoseconds wall, Nanoseconds notBefore = 0)
      : begin_(std::max(wall, notBefore) - sinceBoot()) {}
  Nanoseconds now() const { return begin_ + sinceBoot(); }

 private:
  static Nanoseconds sinceBoot() {
    timespec now{};
    clock_gettime(CLOCK_BOOTTIME, &now);
    return now.tv_sec * Nanoseconds{1'000'000'000} + now.tv_nsec;
  }
  Nanoseconds begin_;
};

}  // namespace lockstep::agent
