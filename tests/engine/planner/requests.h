// Requests and clusters the planner's tests share.
#pragma once

#include <QTest>

#include "engine/planner/planner.h"
#include "tests/support/example_models.h"

namespace lockstep::testing {

inline ir::ModelGraph modelGraph(const models::Model& model, std::int64_t batch,
                                 DType dtype = DType::kF32,
                                 models::Use use = models::Use::kTraining) {
  auto built = models::build(model, batch, dtype, use);
  if (!built.ok()) qFatal("%s", built.error().text().c_str());
  return std::move(built).value();
}

inline planner::PlanRequest request(const models::Model& model, std::int64_t batch,
                                    std::int64_t evaluateBatch, DType dtype = DType::kF32) {
  planner::PlanRequest request;
  request.step = modelGraph(model, batch, dtype);
  request.evaluate = modelGraph(model, evaluateBatch, dtype, models::Use::kEvaluation);
  request.strategy = "multi-worker-mirrored";
  return request;
}

// `ranks` nodes on hosts of `cores`, `perHost` ranks on each.
inline cluster::Cluster clusterOf(int ranks, int cores = 1, int perHost = 1) {
  cluster::Cluster result;
  for (int r = 0; r < ranks; ++r) {
    const std::string host = fmt::format("h{}", r / perHost);
    if (r % perHost == 0) result.hosts.push_back({host, cores});
    result.devices.push_back({fmt::format("n{}", r), host, "cpu", 0, 1});
  }
  result.mesh = cluster::Mesh({{"data", ranks}});
  return result;
}

inline plan::Plan planOf(const planner::PlanRequest& request, const cluster::Cluster& cluster) {
  auto plan = planner::makePlan(request, cluster, {});
  if (!plan.ok()) qFatal("%s", plan.error().text().c_str());
  return std::move(plan).value();
}

}  // namespace lockstep::testing
