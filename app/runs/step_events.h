// The stored events of a sampled step.
#pragma once

#include <cstdint>
#include <vector>

#include "app/history/run_store.h"
#include "engine/base/status.h"
#include "engine/plan/plan.h"

namespace lockstep::app {

// Returns the events of all ranks that have stored some, on the coordinator's clock. Errors:
// kNotFound if the step has none; kDataLoss.
Result<std::vector<plan::Event>> readEvents(const RunStore& store, std::int64_t step);

}  // namespace lockstep::app
