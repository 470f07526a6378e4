#include "app/history/run_row.h"

#include <algorithm>
#include <limits>

#include "engine/specs/workload.h"

namespace lockstep::app {

double effectiveTime(const RunRow& row) {
  const std::int64_t end = row.finishedNs > 0 ? row.finishedNs : row.heardNs;
  const double seconds = static_cast<double>(end - row.startedNs) * 1e-9;
  if (row.startedNs == 0 || seconds <= 0) return std::numeric_limits<double>::quiet_NaN();
  return std::clamp(1 - row.figures.lostSeconds / seconds, 0.0, 1.0);
}

Status setState(RunRow& row, RunState state) {
  LOCKSTEP_TRY(specs::checkTransition(row.phase, state));
  row.phase = state;
  return {};
}

bool isMetric(std::string_view series) {
  return std::find(kMetrics.begin(), kMetrics.end(), series) != kMetrics.end();
}

bool ofProgram(const RunRow& row) { return row.strategy == specs::kProgramStrategy; }

bool lacksModel(const RunRow& row) {
  // The hash of its weights says that there is a model: a run ended by force has none.
  return (row.phase == RunState::SUCCEEDED || row.phase == RunState::STOPPED) &&
         !row.figures.weightsSha256.empty() && row.modelFile.empty();
}

}  // namespace lockstep::app
