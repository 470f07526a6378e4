// What is wrong with a request, before a plan is made of it: every error has remedies, settings of
// the spec with which the same check passes.
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
// What specs are held to where they are read (cluster/strategy_options.h).
Status checkOptions(const PlanRequest& request, const Strategy& strategy,
                    const cluster::Mesh& mesh);
// A server has whole groups, and its workers all layers.
Status checkServers(const Strategy& strategy, const cluster::Mesh& mesh);
// What ranks update by themselves is averaged by whole groups.
Status checkLocal(const Strategy& strategy, const cluster::Mesh& mesh);
// Gradients that every rank adds up itself can be coded.
Result<std::optional<passes::Compression>> compressionOf(const PlanRequest& request,
                                                         const Strategy& strategy, int ranks);
Status checkOrder(const PlanRequest& request, int ranks);
Status checkStaleness(const PlanRequest& request);
// Tables on servers, and the dense part with the workers, which all-reduce its gradients.
Status checkDense(const PlanRequest& request, const Strategy& strategy, bool tables);
// That all ranks can know of the same steps that they update nothing.
Status checkLossScale(const PlanRequest& request, const Strategy& strategy, bool pipeline,
                      bool compressed);
Status checkStages(const PlanRequest& request, const cluster::Mesh& mesh, int stages);
// A layer without a pin is where the one before it is.
Result<std::vector<int>> pinnedStages(const PlanRequest& request, int stages);

}  // namespace lockstep::planner
