#include "engine/passes/program_parts.h"

namespace lockstep::passes {
namespace {

using ir::Op;
using ir::Phase;
using ir::ValueId;

// Marks the pull requests for rows of sharded tables and what these requests are computed from.
std::vector<bool> askedFor(const ir::Graph& from) {
  std::vector<bool> asked(from.nodes().size(), false);
  for (std::size_t id = from.nodes().size(); id-- > 0;) {
    const ir::Node& node = from.nodes()[id];
    if (node.op == Op::kPush && node.phase == Phase::kForward) asked[id] = true;
    for (const ValueId input : node.inputs)
      if (asked[id]) asked[static_cast<std::size_t>(from.value(input).producer)] = true;
  }
  return asked;
}

}  // namespace

Sinks sinksOf(const ir::Graph& graph) {
  Sinks sinks;
  for (const ir::Node& node : graph.nodes()) {
    if (node.op == Op::kStore) sinks.emplace(ir::textAttr(node.attrs, "state"), node.inputs[0]);
    if (node.op == Op::kResult) sinks.emplace(ir::textAttr(node.attrs, "name"), node.inputs[0]);
  }
  return sinks;
}

DType dtypeOf(const ir::Graph& graph, const Sinks& sinks) {
  return graph.value(sinks.begin()->second).type.dtype;
}

Status addResults(GraphBuilder& build, const ir::ModelGraph& model) {
  const auto result = [&](const std::string& name, ValueId value) {
    return build.add(Op::kResult, name + ".result", {value}, {{"name", name}}).status();
  };
  LOCKSTEP_TRY(result("loss", model.loss));
  LOCKSTEP_TRY(result("weight", model.weight));
  if (!model.metric.empty()) LOCKSTEP_TRY(result(model.metric, model.metricSums));
  return {};
}

std::string metricOf(const ir::Graph& graph) {
  for (const ir::Node& node : graph.nodes()) {
    if (node.op != Op::kResult) continue;
    const std::string_view name = ir::textAttr(node.attrs, "name");
    if (name != "loss" && name != "weight") return std::string(name);
  }
  return {};
}

std::vector<ValueId> sumMembers(const Sinks& sinks, const std::string& metric,
                                const Rewrite& values) {
  std::vector<ValueId> members{values(sinks.at("loss")), values(sinks.at("weight"))};
  if (!metric.empty()) members.push_back(values(sinks.at(metric)));
  return members;
}

Status addMetrics(GraphBuilder& build, const std::string& metric, ValueId sums,
                  const std::string& node) {
  const std::string name = metric.empty() ? "metrics" : "metrics." + metric;
  return build.add(Op::kResult, node + ".result", {sums}, {{"name", name}}).status();
}

Result<ValueId> stopRequested(GraphBuilder& build, const std::vector<std::string>& syncAxes) {
  LOCKSTEP_ASSIGN(const ValueId stop, build.input("stop"));
  LOCKSTEP_ASSIGN(ValueId asked, build.add(Op::kScale, "metrics.stop", {stop}, {{"factor", 1.0}}));
  for (const std::string& axis : syncAxes) {
    LOCKSTEP_ASSIGN(asked, build.add(Op::kAllReduce, "metrics.stop." + axis, {asked},
                                     {{"axis", axis}, {"op", std::string("sum")}}));
  }
  return asked;
}

Result<ValueId> unscaled(GraphBuilder& build, const std::string& name, ValueId gradients,
                         ValueId seed) {
  LOCKSTEP_ASSIGN(const ValueId one, build.fill(name + ".one", {1}, 1.0));
  return build.add(Op::kScaleByRatio, name, {gradients, one, seed}, {});
}

Status storeZeros(GraphBuilder& build, const StepProgram& step) {
  for (const StepProgram::Sum& sum : step.sums) {
    build.stage = sum.stage;
    LOCKSTEP_ASSIGN(const ValueId zeros, build.fill(sum.state + ".zero", {sum.count}, 0.0));
    LOCKSTEP_TRY(build.store(sum.state, zeros));
  }
  return {};
}

Result<GroupStates> copyWithGroups(const ir::Graph& from, DType dtype, const StepProgram& program,
                                   Rewrite& rewrite,
                                   const std::function<Status(ir::NodeId)>& copied, bool snapshot) {
  GraphBuilder build{rewrite.to(), dtype, Phase::kForward};
  struct Place {
    ValueId group;
    const Group::Member* member;
  };
  std::map<std::string, Place, std::less<>> places;
  // Pull requests read no state: they are issued first.
  const std::vector<bool> asked = askedFor(from);
  for (std::size_t id = 0; id < asked.size(); ++id) {
    if (!asked[id]) continue;
    LOCKSTEP_TRY(rewrite.copy(static_cast<ir::NodeId>(id)).status());
    LOCKSTEP_TRY(copied(static_cast<ir::NodeId>(id)));
  }
  const auto addStates = [&](std::string_view kind, const std::vector<Group>& groups,
                             std::size_t first = 0) -> Result<std::vector<ValueId>> {
    std::vector<ValueId> states;
    for (std::size_t k = 0; k < groups.size(); ++k) {
      const std::string name = indexed(kind, first + k);
      build.stage = groups[k].kind.stage;
      LOCKSTEP_ASSIGN(const ValueId state, build.state(name, groups[k].count));
      states.push_back(state);
      ValueId read = state;
      if (const std::optional<DType> type = groups[k].kind.castTo) {
        LOCKSTEP_ASSIGN(read,
                        build.add(Op::kCast, fmt::format("{}.{}", name, dtypeName(*type)), {state},
                                  {{"dtype", std::string(dtypeName(*type))}, {"scale", 1.0}}));
      } else if (snapshot &&
                 !groups[k]
                      .kind.rowSharded) {  // of a table's rows those that are asked for are copies
        LOCKSTEP_ASSIGN(read, build.add(Op::kScale, name + ".copy", {state}, {{"factor", 1.0}}));
      }
      for (const Group::Member& member : groups[k].members) {
        places.emplace(member.name, Place{read, &member});
      }
    }
    return states;
  };
  GroupStates states;
  LOCKSTEP_ASSIGN(states.parameters, addStates("params", program.groups));
  LOCKSTEP_TRY(addStates("params", program.frozen, program.groups.size()).status());
  LOCKSTEP_ASSIGN(states.statistics, addStates("stats", program.statistics));
  for (std::size_t id = 0; id < from.nodes().size(); ++id) {
    const ir::Node& node = from.nodes()[id];
    const bool replaced = !node.outputs.empty() && rewrite(node.outputs[0]) >= 0;
    if (isSink(node) || node.op == Op::kRunningStatistics || replaced) continue;
    if (node.op == Op::kCast && from.node(from.value(node.inputs[0]).producer).op == Op::kState &&
        rewrite.to().value(rewrite(node.inputs[0])).type.dtype ==
            from.value(node.outputs[0]).type.dtype) {
      rewrite.replace(node.outputs[0], rewrite(node.inputs[0]));  // the group is cast whole
      continue;
    }
    if (node.op != Op::kState) {
      LOCKSTEP_TRY(rewrite.copy(static_cast<ir::NodeId>(id)).status());
      LOCKSTEP_TRY(copied(static_cast<ir::NodeId>(id)));
      continue;
    }
    const auto place = places.find(ir::textAttr(node.attrs, "state"));
    if (place == places.end()) {
      return invalidArgument("state {} is no parameter of the model",
                             ir::textAttr(node.attrs, "state"));
    }
    const auto& [group, member] = place->second;
    build.stage = node.stage;
    LOCKSTEP_ASSIGN(const ValueId view,
                    build.slice(node.name, group, member->element, member->shape));
    rewrite.replace(node.outputs[0], view);
  }
  return states;
}

}  // namespace lockstep::passes
