// The tables of a run's stragglers and restarts in its file, for RunStore.
#pragma once

#include <string_view>
#include <vector>

#include "app/history/run_data.h"
#include "engine/storage/database.h"

namespace lockstep::app {

// Makes the tables. Lines about stragglers in the log, as earlier versions recorded them, become
// rows.
extern const std::string_view kIncidentSchema;

// Statements of the caller's transaction; see RunBatch.
Status addStraggler(storage::Database& database, const StragglerRow& row);
Status addRestart(storage::Database& database, const RestartRow& row);
// Ends those that are not over.
Status endStragglers(storage::Database& database, std::int64_t wallNs);
std::vector<StragglerRow> readStragglers(storage::Database& database);
std::vector<RestartRow> readRestarts(storage::Database& database);

}  // namespace lockstep::app
