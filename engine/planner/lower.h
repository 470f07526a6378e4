// Lowering: a rank's local graph becomes a Body: steps in the graph's order, values in buffers.
#pragma once

#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/ir/graph.h"
#include "engine/plan/plan.h"
#include "engine/planner/overlap.h"

namespace lockstep::planner {

// Reshapes and slices become views. The members of a pack are written where the group lies; an op
// whose row allows it works in place; a state is updated where it lies. Where none of that holds,
// an explicit copy step stands in the body. Costs are set, collectives overlapped with what
// comes after them (overlap.h), and the arena is laid out (arena.h).
Result<plan::Body> lower(const ir::Graph& local, const std::vector<plan::StateSlot>& state,
                         std::string role, OverlapPolicy& overlap);

}  // namespace lockstep::planner
