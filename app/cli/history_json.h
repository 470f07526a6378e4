// Runs of the history as JSON, for `history show --json` and `history export`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/cli/json_line.h"
#include "app/history/history.h"
#include "app/runs/artifacts.h"
#include "app/runs/energy.h"

namespace lockstep::app::cli {

struct Recorded {  // in a run's file
  std::vector<EpochRow> epochs;
  std::vector<StragglerRow> stragglers;
  std::vector<RestartRow> restarts;
  std::vector<SeriesInfo> series;
  KnownArtifacts artifacts;
  // None: not known. Of a run with very many steps without the phases, which `lockstep energy`
  // reads.
  std::optional<RunEnergy> energy = {};
};
// `store` is that of the run.
Recorded recordedIn(const History& history, const std::string& run, const RunStore& store);

JsonLine jsonLineOf(const RunRow& row, const RunDocuments& documents, const Recorded& recorded);
// The same with "points": {"loss": [[1,2.3], …], …}, all digits of each; NaN and infinities are
// null.
Result<std::string> jsonOfRun(const History& history, const std::string& run);

}  // namespace lockstep::app::cli
