// The plan of a run on a cluster, built from their specs.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/cluster/mesh.h"
#include "engine/models/model.h"
#include "engine/planner/planner.h"
#include "engine/specs/specs.h"

namespace lockstep::specs {

struct Planned {
  models::Model model;
  cluster::Cluster cluster;
  planner::PlanRequest request;
  plan::Plan plan;
};
// `hosts` as for toCluster; `trace`, if not null, receives the passes that built the plan.
// Precondition: `run` is complete (checkAndFill). Errors: kInvalidArgument, with `field` if a
// field is invalid, or the strategy is still open (isOpen).
Result<Planned> makePlanned(const spec::v1::RunSpec& run, const spec::v1::ClusterSpec& cluster,
                            const std::vector<NodeHost>& hosts, const planner::CostModel& cost,
                            passes::PassTrace* trace = nullptr);

// Returns the plan of the model's forward pass for `batch` samples on `threads` processors of one
// machine (planner/forward_plan.h), in the run's precision where processors have it, else in fp32.
// Precondition and errors as above; a program of the user's own has no model.
Result<plan::Plan> makeForwardPlan(const spec::v1::RunSpec& run, std::int64_t batch, int threads);

}  // namespace lockstep::specs
