#include "app/history/run_row.h"

#include <algorithm>

namespace lockstep::app {

Status setState(RunRow& row, RunState state) {
  LOCKSTEP_TRY(specs::checkTransition(row.phase, state));
  row.phase = state;
  return {};
}

bool isMetric(std::string_view series) {
  return std::find(kMetrics.begin(), kMetrics.end(), series) != kMetrics.end();
}

}  // namespace lockstep::app
