// Where the layers of a model are placed.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/planner/plan_context.h"

namespace lockstep::planner {

// Returns the stage of each layer of a pipeline: as pinned, or balanced by the cost of the layers
// in this precision. Errors: of the pins.
Result<std::vector<int>> stagesOfLayers(const PlanContext& context, std::string_view precision);

// Where a plan places a layer.
struct LayerPlacement {
  int stage = 0;
  // Bytes of its parameters, statistics and optimizer state on the rank that holds most of them.
  std::int64_t stateBytes = 0;
};
// One for each layer of request.step, which `plan` was made from.
Result<std::vector<LayerPlacement>> layerPlacements(const PlanRequest& request,
                                                    const cluster::Cluster& cluster,
                                                    const CostModel& cost, const plan::Plan& plan);

}  // namespace lockstep::planner
