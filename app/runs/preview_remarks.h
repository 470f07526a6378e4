// Remarks that a person should read before a run is launched.
#pragma once

#include "app/runs/preview.h"

namespace lockstep::app {

// What there is for the loss of a node: the cluster's spares, or none.
void addSpares(Preview& preview, const spec::v1::RunSpec& spec,
               const spec::v1::ClusterSpec& cluster);
// `plan`: what the preview's plan was made of.
void addRemarks(Preview& preview, const LaunchRequest& request, const planner::PlanRequest& plan);

}  // namespace lockstep::app
