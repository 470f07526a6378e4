#include "app/runs/lost_time.h"

#include <algorithm>
#include <cmath>

#include "app/runs/node_clock.h"

namespace lockstep::app {

void LostTime::noteStep(std::int64_t step, std::int64_t end) {
  latest_ = {std::max(latest_.step, step), std::max(latest_.end, end)};
}

void LostTime::noteFailure() {
  if (failed_.end == 0) failed_ = latest_;
  latest_ = {};
}

double LostTime::recovered(const run::v1::Record& record, double stepSeconds) {
  const run::v1::Recovered& recovered = record.recovered();
  double seconds = recovered.seconds();
  std::int64_t steps = recovered.lost_steps();
  if (failed_.end > 0) {
    const std::int64_t since = bounded(record.monotonic_ns()) - failed_.end;
    seconds = std::max(seconds, static_cast<double>(since) * 1e-9);
    const std::int64_t again = failed_.step - bounded(recovered.step()) + 1;
    steps = std::clamp<std::int64_t>(again, 0, std::max<std::int64_t>(0, steps));
  }
  failed_ = {};
  return seconds + (std::isfinite(stepSeconds) ? stepSeconds * static_cast<double>(steps) : 0);
}

}  // namespace lockstep::app
