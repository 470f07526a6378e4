#include "app/runs/node_clock.h"

namespace lockstep::app {

void NodeClock::note(const run::v1::Record& record) {
  constexpr std::int64_t kMinute = 60'000'000'000;
  const run::v1::ClockOffset& clock = record.clock();
  const std::int64_t now = bounded(record.monotonic_ns());
  if (at_ != 0 && clock.uncertainty_ns() > uncertainty_ && now - at_ < kMinute) return;
  offset_ = bounded(clock.offset_ns());
  uncertainty_ = clock.uncertainty_ns();
  at_ = now;
}

}  // namespace lockstep::app
