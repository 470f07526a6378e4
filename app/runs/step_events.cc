#include "app/runs/step_events.h"

#include <algorithm>

#include "lockstep/run/v1/telemetry.pb.h"

namespace lockstep::app {

Result<StepEvents> readEvents(const RunStore& store, std::int64_t step) {
  StepEvents out;
  for (const SpanEvents& packed : store.events(step, step)) {
    run::v1::EventChunk chunk;
    if (!chunk.ParseFromString(packed.packed))
      return makeError(Code::kDataLoss, "cannot read the events of rank {} in step {}", packed.rank,
                       step);
    const int count = std::min({chunk.plan_step_size(), chunk.kind_size(), chunk.phase_size(),
                                chunk.begin_ns_size(), chunk.end_ns_size()});
    for (int i = 0; i < count; ++i) {
      plan::Event event;
      event.rank = chunk.rank();
      event.step = step;
      event.planStep = chunk.plan_step(i);
      event.kind = static_cast<plan::EventKind>(chunk.kind(i));
      event.phase = static_cast<ir::Phase>(chunk.phase(i));
      event.begin = chunk.begin_ns(i);
      event.end = chunk.end_ns(i);
      out.events.push_back(event);
    }
    out.slow = out.slow || packed.slow;
  }
  if (out.events.empty())
    return makeError(Code::kNotFound, "the history has no events for step {}", step);
  return out;
}

}  // namespace lockstep::app
