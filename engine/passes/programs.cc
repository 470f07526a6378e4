#include "engine/passes/programs.h"

#include "engine/passes/program_parts.h"

namespace lockstep::passes {

using ir::Phase;
using ir::ValueId;

Result<ir::Graph> trainGraph(const ir::ModelGraph& model) {
  if (model.parameters.empty()) {
    return invalidArgument("the model has no parameters to train");
  }
  std::vector<std::string> names;
  for (const ir::Parameter& parameter : model.parameters)
    if (!parameter.frozen) names.push_back(parameter.name);
  if (names.empty()) return invalidArgument("all parameters of the model are frozen");
  LOCKSTEP_ASSIGN(Differentiated full, autodiff(model.graph, model.loss, names));
  GraphBuilder build{full.graph, model.compute, Phase::kBackward};
  for (std::size_t i = 0; i < names.size(); ++i) {
    build.stage = full.graph.find(names[i])->stage;
    LOCKSTEP_TRY(build.store(std::string(kGradient) + names[i], full.gradients[i]));
  }
  LOCKSTEP_TRY(addResults(build, model));
  // Gradient rules may make more than was asked for.
  if (names.size() < model.parameters.size()) return removeDead(full.graph);
  return std::move(full.graph);
}

Result<ir::Graph> evaluateGraph(const ir::ModelGraph& model) {
  ir::Graph graph = model.graph;
  GraphBuilder build{graph, model.compute, Phase::kForward};
  LOCKSTEP_TRY(addResults(build, model));
  return graph;
}

Result<ir::Graph> evaluateProgram(const ir::Graph& evaluate, const StepProgram& step,
                                  int everywhere) {
  const Sinks sinks = sinksOf(evaluate);
  const DType dtype = dtypeOf(evaluate, sinks);
  Rewrite rewrite(evaluate);
  LOCKSTEP_TRY(
      copyWithGroups(evaluate, dtype, step, rewrite, [](ir::NodeId) { return Status(); }).status());
  GraphBuilder build{rewrite.to(), dtype, Phase::kForward};
  build.stage = evaluate.node(evaluate.value(sinks.at("loss")).producer).stage;
  std::vector<ValueId> metrics = sumMembers(sinks, step.metric, rewrite);
  LOCKSTEP_ASSIGN(const ValueId stop, stopRequested(build, {}));
  metrics.push_back(stop);
  LOCKSTEP_ASSIGN(const ValueId pack,
                  build.add(ir::Op::kFlatten, "metrics", std::move(metrics), {}));
  build.stage = everywhere;
  LOCKSTEP_TRY(addMetrics(build, step.metric, pack));
  for (const auto& [name, value] : sinks)  // what else the graph gives
    if (name != "loss" && name != "weight" && name != step.metric)
      LOCKSTEP_TRY(build.add(ir::Op::kResult, name + ".result", {rewrite(value)}, {{"name", name}})
                       .status());
  return rewrite.take();
}

Result<ir::Graph> initProgram(const ir::Graph& init, const StepProgram& step,
                              const TrainOptions& options) {
  const std::vector<Group>& groups = step.groups;
  const Sinks sinks = sinksOf(init);
  LOCKSTEP_ASSIGN(const std::vector<std::string> prefixes, optimizerStates(options.optimizer));
  Rewrite rewrite(init);
  GraphBuilder build{rewrite.to(), dtypeOf(init, sinks), Phase::kInit};
  const auto storeGroup = [&](const std::string& name, const Group& group) -> Status {
    LOCKSTEP_ASSIGN(
        const ValueId pack,
        packGroup(build, name, group, [&](const Group::Member& member) -> Result<ValueId> {
          const auto value = sinks.find(member.name);
          if (value == sinks.end()) {
            return invalidArgument("group member {} is no state of the model", member.name);
          }
          LOCKSTEP_TRY(rewrite.copy(init.value(value->second).producer).status());
          return rewrite(value->second);
        }));
    return build.store(name, pack);
  };
  for (std::size_t k = 0; k < step.statistics.size(); ++k) {
    build.stage = step.statistics[k].kind.stage;
    LOCKSTEP_TRY(storeGroup(indexed("stats", k), step.statistics[k]));
  }
  for (std::size_t k = 0; k < groups.size(); ++k) {
    build.stage = groups[k].kind.stage;
    LOCKSTEP_TRY(storeGroup(indexed("params", k), groups[k]));
    for (const std::string& prefix : prefixes) {
      LOCKSTEP_ASSIGN(const ValueId zeros, build.fill(indexed(prefix, k), {groups[k].count}, 0.0));
      LOCKSTEP_TRY(build.store(indexed(prefix, k), zeros));
    }
  }
  for (std::size_t k = 0; k < step.frozen.size(); ++k) {
    build.stage = step.frozen[k].kind.stage;
    LOCKSTEP_TRY(storeGroup(indexed("params", groups.size() + k), step.frozen[k]));
  }
  LOCKSTEP_TRY(storeZeros(build, step));
  if (step.scaling) LOCKSTEP_TRY(storeInitialScaling(build, *step.scaling));
  return rewrite.take();
}

std::vector<const ir::Graph*> graphsIn(const StepProgram& program) {
  std::vector<const ir::Graph*> out{&program.graph};
  if (program.last) out.push_back(&*program.last);
  return out;
}

}  // namespace lockstep::passes
