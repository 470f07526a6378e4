#include "engine/specs/planned.h"

#include "engine/planner/forward_plan.h"
#include "engine/specs/field.h"
#include "engine/specs/freeze.h"
#include "engine/specs/workload.h"

namespace lockstep::specs {
namespace {

passes::TrainOptions trainOptions(const spec::v1::TrainingSpec& training) {
  passes::TrainOptions out;
  const auto& optimizer = training.optimizer();
  out.optimizer.kind = optimizer.kind();
  out.optimizer.momentum = optimizer.momentum();
  out.optimizer.weightDecay = optimizer.weight_decay();
  out.optimizer.beta1 = optimizer.beta1();
  out.optimizer.beta2 = optimizer.beta2();
  out.optimizer.epsilon = optimizer.epsilon();
  out.optimizer.decayMatricesOnly = optimizer.decay_matrices_only();
  out.optimizer.clipNorm = optimizer.clip_norm();
  if (training.has_loss_scale()) {
    const auto& scale = training.loss_scale();
    out.lossScale = {scale.initial(), scale.growth_interval(), scale.fixed()};
  }
  out.watch = {training.watch().every(), training.watch().update_ratio()};
  out.seed = training.seed();
  return out;
}

// Builds the planner's request.
Result<planner::PlanRequest> planRequestOf(const spec::v1::RunSpec& spec,
                                           const models::Model& model, int dataRanks) {
  const auto& strategy = spec.strategy();
  const auto& training = spec.training();
  const auto [compute, matmulDtype, tf32] = precisionOf(training);
  planner::PlanRequest plan;
  plan.matmulDtype = matmulDtype;
  plan.tf32 = tf32;
  if (!training.activations().empty()) plan.activations = training.activations();
  LOCKSTEP_ASSIGN(plan.microBatches, microBatches(spec, dataRanks));
  plan.inOrder = strategy.deterministic_parts() > 0;
  LOCKSTEP_ASSIGN(plan.step, models::build(model, training.batch() / plan.microBatches, compute,
                                           models::Use::kTraining, plan.microBatches));
  markFrozen(training, plan.step.parameters);
  // By default evaluation uses the training batch: the ranks have memory for it, and it has a
  // sample for each of them.
  LOCKSTEP_ASSIGN(
      plan.evaluate,
      models::build(model,
                    training.evaluate_batch() == 0 ? plan.step.batch : training.evaluate_batch(),
                    compute, models::Use::kEvaluation));
  plan.training = trainOptions(training);
  plan.strategy = strategy.kind();
  plan.staleness = strategy.staleness();
  if (!strategy.dense().empty()) plan.dense = strategy.dense();
  plan.bucketBytes = strategy.bucket_bytes();
  if (!strategy.all_reduce().empty()) plan.allReduce = strategy.all_reduce();
  if (!strategy.compression().empty()) plan.compression = strategy.compression();
  if (!strategy.overlap().empty()) plan.overlap = strategy.overlap();
  plan.gatherBytes = strategy.gather_bytes();
  if (!strategy.recompute().empty()) plan.recompute = strategy.recompute();
  plan.topKAfter = strategy.top_k_after();
  if (strategy.top_k_ratio() > 0) plan.topKRatio = strategy.top_k_ratio();
  plan.shares.assign(strategy.shares().begin(), strategy.shares().end());
  for (const auto& pin : strategy.pins()) plan.pins.emplace_back(pin.layer(), pin.stage());
  if (!strategy.schedule().empty()) plan.schedule = strategy.schedule();
  return plan;
}

}  // namespace

Result<Planned> makePlanned(const spec::v1::RunSpec& run, const spec::v1::ClusterSpec& cluster,
                            const std::vector<NodeHost>& hosts, const planner::CostModel& cost,
                            passes::PassTrace* trace) {
  Planned out;
  if (run.has_workload()) {
    LOCKSTEP_ASSIGN(out.cluster, toCluster(placed(run, cluster), hosts, {}));
    out.plan = programPlan(run, out.cluster.mesh.size());
    return out;
  }
  if (isOpen(run.strategy()))
    return wrongField("strategy.kind",
                      "strategy.kind is auto: the strategy is chosen for the cluster of a launch",
                      {{{"strategy.kind", "multi-worker-mirrored"}}});
  LOCKSTEP_ASSIGN(out.cluster, toCluster(cluster, hosts, run.strategy(), run.training()));
  LOCKSTEP_ASSIGN(out.model, toModel(run.model()));
  LOCKSTEP_ASSIGN(out.request, planRequestOf(run, out.model, out.cluster.mesh.axisSize("data")));
  LOCKSTEP_ASSIGN(out.plan, planner::makePlan(out.request, out.cluster, cost, trace));
  return out;
}

Result<plan::Plan> makeForwardPlan(const spec::v1::RunSpec& run, std::int64_t batch, int threads) {
  if (run.has_workload())
    return invalidArgument("the run is a program of your own, whose model Lockstep does not know");
  spec::v1::RunSpec alone = run;
  alone.mutable_strategy()->Clear();
  alone.mutable_strategy()->set_kind("mirrored");
  auto& training = *alone.mutable_training();
  training.set_evaluate_batch(batch);
  training.clear_loss_scale();
  training.clear_freeze();
  if (training.precision() == "fp16" || training.precision() == "tf32")
    training.set_precision("fp32");
  LOCKSTEP_ASSIGN(const models::Model model, toModel(alone.model()));
  LOCKSTEP_ASSIGN(planner::PlanRequest request, planRequestOf(alone, model, 1));
  return planner::makeForwardPlan(std::move(request), {"here", "here", "cpu", 0, threads}, {});
}

}  // namespace lockstep::specs
