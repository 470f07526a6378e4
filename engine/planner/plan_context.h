// The fixed inputs of the planner: the request, the cluster, and what the checks derived from them.
#pragma once

#include <algorithm>
#include <optional>

#include "engine/cluster/mesh.h"
#include "engine/cluster/strategies.h"
#include "engine/ir/ops.h"
#include "engine/passes/compress.h"
#include "engine/planner/planner.h"
#include "engine/planner/pricing.h"

namespace lockstep::planner {

// References outlive the context.
struct PlanContext {
  const PlanRequest& request;
  const cluster::Cluster& cluster;
  const CostModel& cost;
  cluster::Strategy strategy;
  std::optional<passes::Compression> compression;  // of gradients that ranks sum

  const cluster::Mesh& mesh() const { return cluster.mesh; }
  int ranks() const { return cluster.mesh.axisSize(cluster::kDataAxis); }
  int modelRanks() const { return cluster.mesh.axisSize(cluster::kModelAxis); }
  int stages() const { return cluster.mesh.stages(); }
  int servers() const { return cluster.mesh.servers(); }
  bool isPipeline() const { return stages() > 1 && servers() == 0; }
  // Workers run ahead of each other: each has a parameter-server session of its own.
  bool isAsynchronous() const { return request.isAsynchronous(); }
  // Activations are stored in the operands' type: backends for CPUs would widen each that they
  // read.
  bool storesNarrow() const {
    const auto onGpu = [](const cluster::Device& device) { return device.kind == "cuda"; };
    return !request.tf32 && ir::isNarrow(request.matmulDtype) &&
           (request.activations == "operands" ||
            (request.activations == "auto" &&
             std::all_of(cluster.devices.begin(), cluster.devices.end(), onGpu)));
  }
};

}  // namespace lockstep::planner
