// Checks a request before planning. Every error has remedies: settings of the spec with which the
// same check passes.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/cluster/mesh.h"
#include "engine/cluster/strategies.h"
#include "engine/ir/model_graph.h"
#include "engine/passes/compress.h"
#include "engine/planner/planner.h"

namespace lockstep::planner {

using cluster::kDataAxis, cluster::kModelAxis, cluster::Strategy;

Result<Strategy> strategyOf(const PlanRequest& request, const cluster::Cluster& cluster);
// Every rank has a sample, in a pipeline as many as the others.
Status checkBatches(const PlanRequest& request, int ranks, bool pipeline);
Status checkOverlap(const PlanRequest& request);
Status checkShares(const PlanRequest& request, int ranks, bool pipeline);
Status checkModels(const ir::ModelGraph& step, const ir::ModelGraph& evaluate);
// Statistics of a group of samples are made where all of them are, or of all ranks' samples
// together.
Status checkStatistics(const PlanRequest& request, const Strategy& strategy,
                       const std::vector<std::int64_t>& cuts);
Status checkTensor(const PlanRequest& request, const Strategy& strategy, const cluster::Mesh& mesh);
// The checks of specs (cluster/strategy_options.h).
Status checkOptions(const PlanRequest& request, const Strategy& strategy,
                    const cluster::Mesh& mesh);
// Servers hold whole groups; their workers have all layers.
Status checkServers(const Strategy& strategy, const cluster::Mesh& mesh);
// States updated locally are averaged by whole groups.
Status checkLocal(const Strategy& strategy, const cluster::Mesh& mesh);
// Compression requires gradients that every rank sums itself, and as few ranks as it moves less
// with than a plain all-reduce.
Result<std::optional<passes::Compression>> compressionOf(const PlanRequest& request,
                                                         const Strategy& strategy, int ranks);
// Ordered sums require equal parts, and few.
Status checkOrder(const PlanRequest& request, int ranks);
Status checkStaleness(const PlanRequest& request);
// Tables on servers, and the dense part with the workers, which all-reduce its gradients.
Status checkDense(const PlanRequest& request, const Strategy& strategy, bool tables);
// Checks that all ranks agree on skipped steps.
Status checkLossScale(const PlanRequest& request, const Strategy& strategy, bool pipeline,
                      bool compressed);
Status checkStages(const PlanRequest& request, const Strategy& strategy, const cluster::Mesh& mesh,
                   int stages);
// A layer without a pin is on the stage of the layer before it.
Result<std::vector<int>> pinnedStages(const PlanRequest& request, int stages);

}  // namespace lockstep::planner
