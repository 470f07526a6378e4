#include "engine/specs/run_limits.h"

namespace lockstep::specs {

Nanoseconds heartbeatOf(const spec::v1::RunSpec& run) {
  constexpr Nanoseconds kShortestMs = 50;
  return 1'000'000 * std::max<Nanoseconds>(run.recovery().heartbeat_ms(), kShortestMs);
}

}  // namespace lockstep::specs
