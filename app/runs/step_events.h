// The stored events of a step.
#pragma once

#include <cstdint>
#include <vector>

#include "app/history/run_store.h"
#include "engine/base/status.h"
#include "engine/plan/plan.h"

namespace lockstep::run::v1 {
class EventChunk;
}

namespace lockstep::app {

// Of a step; events of a kind or phase that is none are left out.
std::vector<plan::Event> eventsOf(const run::v1::EventChunk& chunk, std::int64_t step);

struct StepEvents {
  std::vector<plan::Event>
      events;         // of all ranks that have stored some, on the coordinator's clock
  bool slow = false;  // it was chosen since it was slow: it does not stand for others
};
// Errors: kNotFound if the step has none; kDataLoss.
Result<StepEvents> readEvents(const RunStore& store, std::int64_t step);

}  // namespace lockstep::app
