// NodeClock: the clock of one node relative to that of the node that coordinates the run.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "lockstep/run/v1/telemetry.pb.h"

namespace lockstep::app {

// Clamps times and step numbers reported by a node, and sums of two of them, to a range in which
// sums and differences of two do not overflow.
inline std::int64_t bounded(std::int64_t value) {
  constexpr std::int64_t kFar = std::int64_t{1} << 61;  // nanoseconds: the year 2043
  return std::clamp(value, -kFar, kFar);
}

class NodeClock {
 public:
  void setBootId(std::string bootId) { bootId_ = std::move(bootId); }
  // Delayed answers give uncertain offsets: the most certain offset of each minute is used.
  void note(const run::v1::Record& record);
  // Returns what to add to the node's monotonic times, in ns. Nodes with the same boot id share a
  // clock.
  std::int64_t offsetTo(const NodeClock& coordinator) const {
    return !bootId_.empty() && bootId_ == coordinator.bootId_ ? 0 : offset_;
  }

 private:
  std::string bootId_, relativeTo_;
  std::int64_t offset_ = 0;       // ns
  std::int64_t uncertainty_ = 0;  // of the offset
  std::int64_t at_ = 0;           // when it was measured, by the node's clock; 0: never
};

}  // namespace lockstep::app
