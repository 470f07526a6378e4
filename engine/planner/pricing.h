// The price of one step: shared by prediction and simulation.
#pragma once

#include "engine/cluster/mesh.h"
#include "engine/plan/plan.h"
#include "engine/planner/planner.h"

namespace lockstep::planner {

double priceOf(const plan::Plan& plan, const plan::Body& body, const plan::Step& step,
               const cluster::Cluster& cluster, const CostModel& cost);

}  // namespace lockstep::planner
