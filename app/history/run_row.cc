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

bool lacksModel(const RunRow& row) {
  // The hash of its weights says that there is a model: a run ended by force has none.
  return (row.phase == RunState::SUCCEEDED || row.phase == RunState::STOPPED) &&
         !row.figures.weightsSha256.empty() && row.modelFile.empty();
}

}  // namespace lockstep::app
