// Remarks that a person should read before a run is launched.
#pragma once

#include "app/runs/preview.h"

namespace lockstep::app {

// `plan`: what the preview's plan was made of.
void addRemarks(Preview& preview, const LaunchRequest& request, const planner::PlanRequest& plan);

}  // namespace lockstep::app
