// The median rank of a step: what the ranks of a pipeline stage usually do, as one lane.
#pragma once

#include <vector>

#include "app/runs/step_timeline.h"

namespace lockstep::app {

// Returns the median rank of each stage that has at least two ranks with spans. A span of a plan
// step has the median begin and the median length over the stage's ranks, with length 0 for ranks
// without it: what only a minority does is left out. Medians are lower ones.
std::vector<StepTimeline::Lane> medianRanks(const StepTimeline& timeline);

}  // namespace lockstep::app
