#include "app/runs/node_clock.h"

namespace lockstep::app {

void NodeClock::note(const run::v1::Record& record) {
  constexpr std::int64_t kMinute = 60'000'000'000;
  const run::v1::ClockOffset& clock = record.clock();
  const std::int64_t now = bounded(record.monotonic_ns());
  const bool isSame = at_ != 0 && clock.relative_to() == relativeTo_;
  if (isSame && clock.uncertainty_ns() > uncertainty_ && now - at_ < kMinute) return;
  relativeTo_ = clock.relative_to();
  offset_ = bounded(clock.offset_ns());
  uncertainty_ = clock.uncertainty_ns();
  at_ = now;
}

}  // namespace lockstep::app
