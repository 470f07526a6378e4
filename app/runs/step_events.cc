#include "app/runs/step_events.h"

#include <algorithm>

#include "lockstep/run/v1/telemetry.pb.h"

namespace lockstep::app {

std::vector<plan::Event> eventsOf(const run::v1::EventChunk& chunk, std::int64_t step) {
  constexpr int kLastKind = static_cast<int>(plan::EventKind::kData);
  constexpr int kLastPhase = static_cast<int>(ir::Phase::kWatch);
  const int count = std::min({chunk.plan_step_size(), chunk.kind_size(), chunk.phase_size(),
                              chunk.begin_ns_size(), chunk.end_ns_size()});
  std::vector<plan::Event> out;
  for (int i = 0; i < count; ++i) {
    const int kind = chunk.kind(i), phase = chunk.phase(i);
    if (kind < 0 || kind > kLastKind || phase < 0 || phase > kLastPhase) continue;
    plan::Event& event = out.emplace_back();
    event.rank = chunk.rank();
    event.step = step;
    event.planStep = chunk.plan_step(i);
    event.kind = static_cast<plan::EventKind>(kind);
    event.phase = static_cast<ir::Phase>(phase);
    event.begin = chunk.begin_ns(i);
    event.end = chunk.end_ns(i);
  }
  return out;
}

Result<StepEvents> readEvents(const RunStore& store, std::int64_t step) {
  StepEvents out;
  for (const SpanEvents& packed : store.events(step, step)) {
    run::v1::EventChunk chunk;
    if (!chunk.ParseFromString(packed.packed))
      return makeError(Code::kDataLoss, "cannot read the events of rank {} in step {}", packed.rank,
                       step);
    const std::vector<plan::Event> events = eventsOf(chunk, step);
    out.events.insert(out.events.end(), events.begin(), events.end());
    out.slow = out.slow || packed.slow;
  }
  if (out.events.empty())
    return makeError(Code::kNotFound, "the history has no events for step {}", step);
  return out;
}

}  // namespace lockstep::app
