#include <algorithm>
#include <utility>

#include "engine/planner/planner.h"

namespace lockstep::planner {
namespace {

constexpr double kLeastShare = 0.1;  // of a measured cost; what would need less has other reasons

CostModel withCollectives(CostModel cost, double factor) {
  for (CostModel::CollectiveCost& one : cost.collectives) one.seconds *= factor;
  return cost;
}

double simulatedStep(plan::Plan plan, const cluster::Cluster& cluster, const CostModel& cost) {
  predict(plan, cluster, cost);
  return simulate(plan, cluster, cost).stepSeconds;
}

}  // namespace

void calibrate(CostModel& cost, const plan::Plan& plan, const cluster::Cluster& cluster,
               double stepSeconds) {
  const double whole = simulatedStep(plan, cluster, cost);
  // Ranks are synchronous, so the step is linear in what its collectives take.
  const double without = simulatedStep(plan, cluster, withCollectives(cost, 0));
  // Very short collectives do not explain the rest: messages and waking up do.
  if (whole - without > 0.01 * stepSeconds) {
    const double factor = (stepSeconds - without) / (whole - without);
    cost = withCollectives(std::move(cost), std::max(factor, kLeastShare));
  } else {
    cost.stepOverheadSeconds = std::max(cost.stepOverheadSeconds + stepSeconds - whole,
                                        cost.stepOverheadSeconds * kLeastShare);
  }
  const double now = simulatedStep(plan, cluster, cost);
  if (stepSeconds <= 0 || now <= 0) return;
  cost = withCollectives(std::move(cost), stepSeconds / now);
  for (auto& [signature, seconds] : cost.stepSeconds) seconds *= stepSeconds / now;
  cost.stepOverheadSeconds *= stepSeconds / now;
}

}  // namespace lockstep::planner
