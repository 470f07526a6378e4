#include "engine/passes/running_statistics.h"

#include <map>

namespace lockstep::passes {

using ir::Op;
using ir::Phase;
using ir::ValueId;

std::vector<StepProgram::Running> runningOf(const ir::Graph& train,
                                            const std::vector<Group>& statistics) {
  std::map<ValueId, std::string> states;
  for (const ir::Node& node : train.nodes())
    if (node.op == Op::kStore) states[node.inputs[0]] = ir::textAttr(node.attrs, "state");
  std::vector<StepProgram::Running> out;
  for (const ir::Node& node : train.nodes()) {
    if (node.op != Op::kRunningStatistics) continue;
    StepProgram::Running one{.name = node.name,
                             .mean = states.at(node.outputs[0]),
                             .variance = states.at(node.outputs[1]),
                             .attrs = node.attrs,
                             .sums = train.value(node.inputs[2]).type.shape,
                             .meanBefore = node.inputs[0],
                             .varianceBefore = node.inputs[1],
                             .made = node.inputs[2]};
    const ir::Node& maker = train.node(train.value(one.made).producer);
    one.whole = train.value(maker.outputs[0]).type.shape[0] == 1;
    while (statistics[one.group].kind.stage != node.stage) ++one.group;
    out.push_back(std::move(one));
  }
  return out;
}

Result<ValueId> packStatistics(GraphBuilder& build, const StepProgram& program, std::size_t k,
                               const Rewrite& values) {
  std::vector<ValueId> sums;
  for (const StepProgram::Running& one : program.running)
    if (one.group == k) sums.push_back(values(one.made));
  return build.add(Op::kFlatten, indexed("statistics", k), std::move(sums), {});
}

Result<ValueId> nextStatistics(GraphBuilder& build, const StepProgram& program, std::size_t k,
                               ValueId sums,
                               const std::function<Result<ValueId>(const std::string&)>& before) {
  const Group& group = program.statistics[k];
  std::map<std::string, ValueId, std::less<>> updated;
  std::int64_t element = 0;
  for (const StepProgram::Running& one : program.running) {
    if (one.group != k) continue;
    LOCKSTEP_ASSIGN(const ValueId mine, build.slice(one.name + ".sums", sums, element, one.sums));
    element += elementCount(one.sums);
    LOCKSTEP_ASSIGN(const ValueId mean, before(one.mean));
    LOCKSTEP_ASSIGN(const ValueId variance, before(one.variance));
    LOCKSTEP_ASSIGN(const ir::NodeId node,
                    build.graph.add(Op::kRunningStatistics, one.name, {mean, variance, mine},
                                    one.attrs, build.phase));
    build.graph.setStage(node, build.stage);
    updated[one.mean] = build.graph.output(node, 0);
    updated[one.variance] = build.graph.output(node, 1);
  }
  return packGroup(
      build, indexed("stats", k) + ".next", group,
      [&](const Group::Member& member) -> Result<ValueId> { return updated.at(member.name); });
}

Result<std::vector<ValueId>> nextStatistics(GraphBuilder& build, const StepProgram& program,
                                            const Rewrite& values) {
  std::vector<ValueId> next;
  build.phase = Phase::kOptimizer;
  for (std::size_t k = 0; k < program.statistics.size(); ++k) {
    build.stage = program.statistics[k].kind.stage;
    std::map<std::string, ValueId, std::less<>> now;
    for (const StepProgram::Running& one : program.running) {
      now[one.mean] = values(one.meanBefore);
      now[one.variance] = values(one.varianceBefore);
    }
    LOCKSTEP_ASSIGN(const ValueId sums, packStatistics(build, program, k, values));
    LOCKSTEP_ASSIGN(
        const ValueId made,
        nextStatistics(build, program, k, sums,
                       [&](const std::string& name) -> Result<ValueId> { return now.at(name); }));
    next.push_back(made);
  }
  return next;
}

Status storeStatistics(GraphBuilder& build, const StepProgram& program, std::size_t k, ValueId next,
                       ValueId before, ValueId norm) {
  build.stage = program.statistics[k].kind.stage;
  const std::string state = indexed("stats", k);
  if (norm >= 0) {
    LOCKSTEP_ASSIGN(next,
                    build.add(Op::kSelectIfFinite, state + ".kept", {next, before, norm}, {}));
  }
  return build.store(state, next);
}

Status storeStatistics(GraphBuilder& build, const StepProgram& program,
                       const std::vector<ValueId>& next, const std::vector<ValueId>& before,
                       ValueId norm) {
  for (std::size_t k = 0; k < next.size(); ++k)
    LOCKSTEP_TRY(storeStatistics(build, program, k, next[k], before[k], norm));
  return {};
}

}  // namespace lockstep::passes
