// The plan of a model's forward pass, whose outputs are wanted: predictions.
#pragma once

#include <string_view>

#include "engine/planner/planner.h"

namespace lockstep::planner {

// The result with the output of the last layer, which the loss reads: [samples, values], of a text
// [samples · tokens, vocabulary]. Logits, not probabilities.
inline constexpr std::string_view kModelOutput = "output";

// Returns makeEvaluationPlan()'s plan, whose program "evaluate" has the result kModelOutput besides
// its metrics.
Result<plan::Plan> makeForwardPlan(PlanRequest request, const cluster::Device& device,
                                   const CostModel& cost);

}  // namespace lockstep::planner
