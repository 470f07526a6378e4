// The series of a run as CSV.
#pragma once

#include <string>

#include "app/history/run_store.h"
#include "engine/base/status.h"

namespace lockstep::app {

// Up to three tables with an empty line between them, over steps, over epochs and over time: a row
// for each x, then a column for each series, empty where it has no point there.
Result<std::string> csvOf(const RunStore& store);

}  // namespace lockstep::app
