// StepTimeline: what each rank did in one step, as spans, with the arrivals at every collective.
// Of a sampled step from its stored events, or as the simulator predicts it. No threads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "app/history/run_store.h"
#include "app/runs/preview.h"
#include "engine/base/status.h"
#include "engine/plan/plan.h"

namespace lockstep::app {

enum class SpanKind : std::uint8_t { kData, kForward, kBackward, kWaiting, kTransfer, kOptimizer };

struct TimelineSpan {
  std::int64_t begin = 0, end = 0;  // ns, since the first rank began the step
  std::int32_t name = -1;           // in StepTimeline::names; -1: it is no step of the plan
  std::int32_t collective = -1;     // in StepTimeline::collectives
  SpanKind kind = SpanKind::kData;
  std::int64_t length() const { return end - begin; }
};

struct StepTimeline {
  std::int64_t step = 0;
  std::int64_t length = 0;  // ns, to the end of the last rank
  struct Lane {
    std::vector<TimelineSpan> spans;          // in order; none overlaps another
    std::vector<TimelineSpan> communication;  // asynchronous, beside them
  };
  std::vector<Lane> lanes;         // by rank; without spans where there are no events
  std::vector<std::string> names;  // of the plan's steps
  struct Arrival {
    int rank = 0;
    std::int64_t at = 0;
  };
  struct Collective {
    std::int32_t name = -1;
    std::vector<Arrival> arrivals;  // by rank
    Arrival last;                   // for which the others wait
  };
  std::vector<Collective> collectives;
  bool empty() const { return length == 0; }
};

// Events of one step. The part of a collective before its last rank arrives is waiting, and so is
// the part of a receive before its message is sent, and a gap that an asynchronous transfer ends.
StepTimeline makeTimeline(const plan::Plan& plan, const std::vector<plan::Event>& events);

// Errors: kNotFound if the step has no events; kDataLoss.
Result<StepTimeline> readTimeline(const RunStore& store, const plan::Plan& plan, std::int64_t step);

// Simulates a step of a run's plan with the costs and hosts that its prediction keeps; without
// hosts, as if every rank had cores of its own. kFailedPrecondition if plan and prediction differ
// in their ranks.
Result<StepTimeline> predictTimeline(const plan::Plan& plan, const Preview& prediction);

// Returns the step of `sampled`, in order, that is nearest to `step`; 0 if there is none.
std::int64_t nearestSampled(const std::vector<std::int64_t>& sampled, std::int64_t step);

}  // namespace lockstep::app
