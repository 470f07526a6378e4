// StepTimeline: what each rank did in one step, as spans, with the arrivals at every collective
// and the messages between ranks.
// Built from the stored events of a step, or from the simulator's prediction. No threads.
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
  std::int32_t name = -1;           // in StepTimeline::names; -1: not a step of the plan
  std::int32_t collective = -1;     // in StepTimeline::collectives
  SpanKind kind = SpanKind::kData;
  std::int32_t waitsFor = -1;  // the rank that a wait is for; -1: no wait, or not known
  std::int64_t length() const { return end - begin; }
};

struct StepTimeline {
  std::int64_t step = 0;
  std::int64_t length = 0;  // ns, to the end of the last rank
  bool slow = false;        // told since it was slow, rather than sampled
  struct Lane {
    std::vector<TimelineSpan> spans;          // in order; none overlaps another
    std::vector<TimelineSpan> communication;  // asynchronous, beside them
    int stage = 0;                            // of the pipeline
    std::int32_t firstName = 0;               // in `names`: of the first plan step of the rank
  };
  std::vector<Lane> lanes;          // by rank; no spans if the rank has no events
  std::vector<Lane> medians;        // the median rank of each stage that has several, by stage
  std::vector<std::string> names;   // of the plan's steps
  std::vector<std::int64_t> bytes;  // that these collectives and messages transfer on a rank
  struct Arrival {
    int rank = 0;
    std::int64_t at = 0;
  };
  struct Collective {
    std::int32_t name = -1;
    std::vector<Arrival> arrivals;  // by rank
    Arrival last;                   // the rank that the others wait for
  };
  std::vector<Collective> collectives;
  struct Flow {                            // a message from one rank to another
    int from = 0, to = 0;                  // ranks
    std::int32_t send = -1, receive = -1;  // names of the spans at both ends
    std::int64_t sent = 0;                 // when the send began
    std::int64_t awaited = 0;              // when the receive began
    std::int64_t received = 0;             // when the receive ended
  };
  std::vector<Flow> flows;  // by sender and receiver, in the order of their messages
  bool empty() const { return length == 0; }
  std::int64_t bytesOf(const TimelineSpan& span) const;  // 0: the span is no transfer
};

// Reads and verifies the plan that the history has of a run: the other functions here are given
// plans that hold. Errors: kInvalidArgument, where it is; kDataLoss.
Result<plan::Plan> storedPlan(const std::string& text);

// Builds the timeline from the events of one step. Time counts as waiting in a collective before
// the last rank arrives, in a receive before the message is sent, and in a gap that ends with an
// asynchronous transfer.
StepTimeline makeTimeline(const plan::Plan& plan, const std::vector<plan::Event>& events);

// Errors: kNotFound if the step has no events; kDataLoss.
Result<StepTimeline> readTimeline(const RunStore& store, const plan::Plan& plan, std::int64_t step);

// Simulates a step of a run's plan with the costs and hosts stored in its prediction; without
// hosts, as if every rank had its own cores. kFailedPrecondition if plan and prediction have
// different numbers of ranks.
Result<StepTimeline> predictTimeline(const plan::Plan& plan, const Preview& prediction);

// Returns a step in the middle of the preview's simulation: the first one has nothing before it.
// Empty if the simulation has no events.
StepTimeline simulatedStep(const Preview& preview);

// Returns which step to show to someone who looks at step `wanted`: the nearest one; 0: the newest
// that is usual, so no slow one. A slow step that only some ranks have told is left out: who waited
// for the others would not be seen. 0 if there is none.
std::int64_t stepToShow(const std::vector<EventStep>& told, std::int64_t wanted);

// Returns the step of `sampled`, in order, that is nearest to `step`; 0 if there is none.
std::int64_t nearestSampled(const std::vector<std::int64_t>& sampled, std::int64_t step);

}  // namespace lockstep::app
