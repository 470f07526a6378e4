// CopyPace: how fast files of a checkpoint are copied from another node, one after another, while
// the run trains: with a tenth of the link's speed, so that the run's own collectives keep the
// rest. A token bucket of one chunk; has neither threads nor a clock.
#pragma once

#include <cstdint>

#include "engine/base/clock.h"

namespace lockstep::agent {

class CopyPace {
 public:
  // `link` is its speed in bytes per second; 0: not known, and nothing waits. A file has
  // to be there within `limit`.
  CopyPace(double link, Nanoseconds limit) : link_(link), limit_(limit) {}

  // A chunk of a file of `total` bytes has come. Returns how long to wait before the next one.
  Nanoseconds after(std::int64_t bytes, std::int64_t total, Nanoseconds now);

 private:
  const double link_;
  const Nanoseconds limit_;
  double level_ = 0;  // bytes that may come at once; below 0: that have come too early
  Nanoseconds last_ = 0;
};

}  // namespace lockstep::agent
