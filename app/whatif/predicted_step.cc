#include "app/whatif/predicted_step.h"

#include "app/whatif/sampled_steps.h"

namespace lockstep::app {
namespace {

constexpr std::size_t kSteps = 8;    // equal ones: a pipeline that fills in the first counts little
constexpr std::int64_t kSteady = 2;  // of the simulation: the second is like all others
constexpr std::size_t kMostPlanSteps = 500'000;  // of all ranks: a replay takes some seconds

Error notReplayed(Message why) {
  Error error = makeError(Code::kFailedPrecondition, "the predicted step cannot be replayed");
  error.why = std::move(why);
  return error;
}

std::size_t planStepsOf(const plan::Plan& plan) {
  std::size_t out = 0;
  for (int rank = 0; rank < plan.mesh.size(); ++rank)
    for (const plan::ScheduleEntry& entry : plan.entriesOf(rank))
      out += plan.find(entry.program, rank)->steps.size();
  return out;
}

void addSteps(MeasuredRun::Rank& rank, double seconds, double data) {
  PartSeconds parts = rank.usual;
  parts[static_cast<std::size_t>(OwnPart::kOther)] = data;
  for (std::size_t p = 0; p < kOwnParts; ++p) rank.parts[p].assign(kSteps, parts[p]);
  rank.length.assign(kSteps, seconds);
  rank.stalled.assign(kSteps, 0);
  rank.stalledAfter.assign(kSteps, 0);
}

}  // namespace

Result<MeasuredRun> predictedStep(const Preview& preview) {
  if (preview.ofProgram())
    return notReplayed("what a program of the user's own computes is not known before");
  if (preview.plan.isAsynchronous())
    return notReplayed("its training is asynchronous: its ranks do not wait for each other");
  if (const std::size_t steps = planStepsOf(preview.plan); steps > kMostPlanSteps) {
    Error error = notReplayed(message("the plans of its {} ranks have {} steps, of at most {}",
                                      preview.plan.mesh.size(), steps, kMostPlanSteps));
    error.next = "ask it of fewer ranks, or of fewer micro-batches";
    return error;
  }
  MeasuredRun out;
  out.plan = preview.plan;
  for (const RankPreview& rank : preview.ranks) out.nodes.push_back(rank.node);
  SampledSteps samples(out);
  planner::SimulateOptions options;
  options.steps = static_cast<int>(kSteady);
  std::vector<plan::Event> events;
  for (const plan::Event& event :
       planner::simulate(preview.plan, preview.cluster, preview.cost, options).events)
    if (event.step == kSteady && !(event.asynchronous && event.kind == plan::EventKind::kWaiting))
      events.push_back(event);
  samples.add(kSteady, 1, events);
  if (out.sampled.empty()) return notReplayed("the simulation has no events of it");
  samples.average();
  out.scalesExchanges = false;  // each takes what was simulated
  out.exchangeScale.assign(kSteps, 1);
  out.nearestSample.assign(kSteps, 0);
  for (std::size_t step = 1; step <= kSteps; ++step)
    out.steps.push_back(static_cast<std::int64_t>(step));
  for (std::size_t r = 0; r < out.ranks.size(); ++r)
    addSteps(out.ranks[r], preview.stepSeconds, preview.simulation.ranks[r].data);
  return out;
}

}  // namespace lockstep::app
