#include "app/runs/layer_plan.h"

#include <algorithm>

#include "app/specs/spec_text.h"
#include "engine/cluster/cuts.h"
#include "engine/cluster/strategies.h"
#include "engine/models/model.h"
#include "engine/planner/layer_placement.h"
#include "engine/specs/planned.h"
#include "lockstep/spec/v1/spec.pb.h"

namespace lockstep::app {

Result<LayerPlan> planLayers(const spec::v1::RunSpec& spec, int ranks) {
  const ClusterSpecFile cluster = localCluster(ranks, {}, "shm");
  const planner::CostModel cost;
  LOCKSTEP_ASSIGN(const specs::Planned planned, specs::makePlanned(spec, *cluster.spec, {}, cost));
  LOCKSTEP_ASSIGN(const auto placements,
                  planner::layerPlacements(planned.request, planned.cluster, cost, planned.plan));
  LOCKSTEP_ASSIGN(const auto infos, models::describe(planned.model));
  LayerPlan out;
  out.ranks = ranks;
  out.stages = planned.plan.mesh.servers() > 0 ? 1 : planned.plan.mesh.stages();
  out.samples = cluster::largestPart(planned.plan.batchCuts);
  // describe() computes in f32.
  const std::int64_t width = planned.request.step.compute == DType::kF64 ? 2 : 1;
  for (std::size_t i = 0; i < placements.size(); ++i)
    out.layers.push_back({placements[i].stage, placements[i].stateBytes,
                          infos[i].activationBytes * width * out.samples});
  return out;
}

int leastRanks(const spec::v1::RunSpec& spec) {
  const auto& strategy = spec.strategy();
  const cluster::Strategy* kind = cluster::findStrategy(strategy.kind());
  const std::string_view axis = kind == nullptr ? cluster::kDataAxis : kind->axis;
  const auto of = [](int given, bool divided) { return given > 0 ? given : divided ? 2 : 1; };
  int stages = of(strategy.stages(), axis == cluster::kStageAxis);
  for (const auto& pin : strategy.pins())
    if (strategy.stages() == 0) stages = std::max(stages, pin.stage() + 1);
  const int tensor = of(strategy.tensor(), axis == cluster::kModelAxis);
  const int servers = specs::hasServers(strategy) ? std::max(strategy.servers(), 1) : 0;
  return std::clamp(stages, 1, specs::kMaxRanks) * std::clamp(tensor, 1, specs::kMaxRanks) +
         servers;
}

}  // namespace lockstep::app
