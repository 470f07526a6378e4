#include <algorithm>

#include "engine/planner/forward_plan.h"

namespace lockstep::planner {

Result<plan::Plan> makeEvaluationPlan(const PlanRequest& request, const cluster::Device& device,
                                      const CostModel& cost) {
  PlanRequest alone;
  alone.matmulDtype = request.matmulDtype;
  alone.tf32 = request.tf32;
  alone.activations = request.activations;
  alone.step = request.step;
  alone.evaluate = request.evaluate;
  alone.training.optimizer.kind = "sgd";
  alone.training.seed = request.training.seed;
  alone.strategy = "mirrored";
  cluster::Cluster one;
  one.hosts.push_back({device.host, device.threads});
  one.devices.push_back(device);
  one.mesh = cluster::Mesh({{"data", 1}});
  LOCKSTEP_ASSIGN(plan::Plan plan, makePlan(alone, one, cost));

  std::erase_if(plan.programs,
                [](const plan::Program& program) { return program.name != "evaluate"; });
  plan.schedule = {{{"evaluate", 0, 0}}};
  std::erase_if(plan.state, [](const plan::StateSlot& slot) {
    return slot.role != plan::StateRole::kParameters && slot.role != plan::StateRole::kStatistics;
  });
  plan.stateBytes = 0;
  for (plan::StateSlot& slot : plan.state) {
    slot.offset = plan.stateBytes;
    plan.stateBytes += plan::Plan::copyBytes(slot) * slot.copies;
    for (plan::Buffer& buffer : plan.programs.front().bodies.front().buffers)
      if (buffer.kind == plan::BufferKind::kState && buffer.base < 0 && buffer.name == slot.name)
        buffer.offset = slot.offset;
  }
  if (const Status status = plan::verify(plan); !status.ok())
    return makeError(Code::kInternal, "the plan that evaluates {} does not hold: {}", plan.name,
                     status.error().text());
  return plan;
}

Result<plan::Plan> makeForwardPlan(PlanRequest request, const cluster::Device& device,
                                   const CostModel& cost) {
  ir::Graph& graph = request.evaluate.graph;
  const ir::ValueId output = graph.node(graph.value(request.evaluate.loss).producer).inputs.front();
  LOCKSTEP_TRY(
      graph.add(ir::Op::kResult, "output.result", {output}, {{"name", std::string(kModelOutput)}})
          .status());
  return makeEvaluationPlan(request, device, cost);
}

}  // namespace lockstep::planner
