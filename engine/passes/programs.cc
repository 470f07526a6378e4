#include "engine/passes/programs.h"

#include <algorithm>
#include <limits>
#include <map>

#include "engine/ir/ops.h"
#include "engine/passes/optimizer_updates.h"
#include "engine/passes/rewrite.h"

namespace lockstep::passes {
namespace {

using ir::Attrs;
using ir::Op;
using ir::Phase;
using ir::ValueId;

// A graph's sinks by name: stored states and results.
using Sinks = std::map<std::string, ValueId, std::less<>>;
Sinks sinksOf(const ir::Graph& graph) {
  Sinks sinks;
  for (const ir::Node& node : graph.nodes()) {
    if (node.op == Op::kStore) sinks.emplace(ir::textAttr(node.attrs, "state"), node.inputs[0]);
    if (node.op == Op::kResult) sinks.emplace(ir::textAttr(node.attrs, "name"), node.inputs[0]);
  }
  return sinks;
}
bool isSink(const ir::Node& node) { return node.op == Op::kStore || node.op == Op::kResult; }

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

// How many ranks were asked to stop. The input is copied, since an input may not lie in a group.
Result<ValueId> stopWish(GraphBuilder& build, const std::vector<std::string>& agree) {
  LOCKSTEP_ASSIGN(const ValueId stop, build.input("stop"));
  LOCKSTEP_ASSIGN(ValueId asked, build.add(Op::kScale, "metrics.stop", {stop}, {{"factor", 1.0}}));
  for (const std::string& axis : agree) {
    LOCKSTEP_ASSIGN(asked, build.add(Op::kAllReduce, "metrics.stop." + axis, {asked},
                                     {{"axis", axis}, {"op", std::string("sum")}}));
  }
  return asked;
}

// The name of the metric among a model's results.
std::string metricOf(const ir::Graph& graph) {
  for (const ir::Node& node : graph.nodes()) {
    if (node.op != Op::kResult) continue;
    const std::string_view name = ir::textAttr(node.attrs, "name");
    if (name != "loss" && name != "weight") return std::string(name);
  }
  return {};
}
// The members of "metrics", but for the last.
std::vector<ValueId> sumMembers(const Sinks& sinks, const std::string& metric,
                                const Rewrite& values) {
  std::vector<ValueId> members{values(sinks.at("loss")), values(sinks.at("weight"))};
  if (!metric.empty()) members.push_back(values(sinks.at(metric)));
  return members;
}
Status addMetrics(GraphBuilder& build, const std::string& metric, ValueId sums,
                  const std::string& node = "metrics") {
  const std::string name = metric.empty() ? "metrics" : "metrics." + metric;
  return build.add(Op::kResult, node + ".result", {sums}, {{"name", name}}).status();
}

// What is asked for of tables on servers, and what that is made of.
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

struct GroupStates {
  std::vector<ValueId> parameters, statistics;
};
// Copies `from` without its sinks, what updates statistics and what has been replaced, its states
// becoming slices of the groups' states; `copied` is called after each node.
template <typename Copied>
Result<GroupStates> copyWithGroups(const ir::Graph& from, DType dtype, const StepProgram& program,
                                   Rewrite& rewrite, Copied copied, bool ofCopies = false) {
  GraphBuilder build{rewrite.to(), dtype, Phase::kForward};
  struct Place {
    ValueId group;
    const Group::Member* member;
  };
  std::map<std::string, Place, std::less<>> places;
  // It needs no state, and goes first.
  const std::vector<bool> asked = askedFor(from);
  for (std::size_t id = 0; id < asked.size(); ++id) {
    if (!asked[id]) continue;
    LOCKSTEP_TRY(rewrite.copy(static_cast<ir::NodeId>(id)).status());
    LOCKSTEP_TRY(copied(static_cast<ir::NodeId>(id)));
  }
  const auto addStates = [&](std::string_view kind,
                             const std::vector<Group>& groups) -> Result<std::vector<ValueId>> {
    std::vector<ValueId> states;
    for (std::size_t k = 0; k < groups.size(); ++k) {
      build.stage = groups[k].kind.stage;
      LOCKSTEP_ASSIGN(const ValueId state, build.state(indexed(kind, k), groups[k].count));
      states.push_back(state);
      ValueId read = state;
      if (const std::optional<DType> type = groups[k].kind.narrowed) {
        LOCKSTEP_ASSIGN(
            read, build.add(Op::kCast, fmt::format("{}.{}.{}", kind, k, dtypeName(*type)), {state},
                            {{"dtype", std::string(dtypeName(*type))}, {"scale", 1.0}}));
      } else if (ofCopies &&
                 !groups[k].kind.served) {  // of a table's rows those that are asked for are copies
        LOCKSTEP_ASSIGN(
            read, build.add(Op::kScale, indexed(kind, k) + ".copy", {state}, {{"factor", 1.0}}));
      }
      for (const Group::Member& member : groups[k].members) {
        places.emplace(member.name, Place{read, &member});
      }
    }
    return states;
  };
  GroupStates states;
  LOCKSTEP_ASSIGN(states.parameters, addStates("params", program.groups));
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

// A group's values laid out, zeros between them.
template <typename Value>
Result<ValueId> packGroup(GraphBuilder& build, const std::string& name, const Group& group,
                          Value valueOf) {
  std::vector<ValueId> members;
  for (const Group::Member& member : group.members) {
    LOCKSTEP_ASSIGN(const ValueId value, valueOf(member));
    members.push_back(value);
    if (member.padding == 0) continue;
    LOCKSTEP_ASSIGN(const ValueId zeros,
                    build.fill(member.name + ".padding", {member.padding}, 0.0));
    members.push_back(zeros);
  }
  return build.add(Op::kPack, name, std::move(members), {});
}

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

// What ranks have to add up for the statistics of group k, as one value, so that it costs one
// collective at most.
Result<ValueId> packStatistics(GraphBuilder& build, const StepProgram& program, std::size_t k,
                               const Rewrite& values) {
  std::vector<ValueId> sums;
  for (const StepProgram::Running& one : program.running)
    if (one.group == k) sums.push_back(values(one.made));
  return build.add(Op::kPack, indexed("statistics", k), std::move(sums), {});
}

// The statistics of group k of after the step; `before` has the means and variances by the names of
// their states.
template <typename Before>
Result<ValueId> nextStatistics(GraphBuilder& build, const StepProgram& program, std::size_t k,
                               ValueId sums, Before before) {
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

// Of state `before`, unless the step is one that updates nothing, which `norm` says; −1: none is.
Status storeStatistics(GraphBuilder& build, const StepProgram& program, std::size_t k, ValueId next,
                       ValueId before, ValueId norm) {
  build.stage = program.statistics[k].kind.stage;
  const std::string state = indexed("stats", k);
  if (norm >= 0) {
    LOCKSTEP_ASSIGN(next, build.add(Op::kUnlessSkipped, state + ".kept", {next, before, norm}, {}));
  }
  return build.store(state, next);
}

// In the program that makes what they are made of.
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
Status storeStatistics(GraphBuilder& build, const StepProgram& program,
                       const std::vector<ValueId>& next, const std::vector<ValueId>& before,
                       ValueId norm) {
  for (std::size_t k = 0; k < next.size(); ++k)
    LOCKSTEP_TRY(storeStatistics(build, program, k, next[k], before[k], norm));
  return {};
}

// The pack that the metrics travel in: the first of gradients that is where the loss is, or goes to
// a server with all others; else one of their own.
std::size_t metricsPackOf(const std::vector<Group>& groups, const Grouping& grouping,
                          int stageOfLoss) {
  if (!grouping.metricsInGroup) return groups.size();
  const auto dense = std::find_if(groups.begin(), groups.end(), [&](const Group& group) {
    return group.kind.table == 0 && !group.kind.served &&
           (grouping.servers > 0 || group.kind.stage == stageOfLoss);
  });
  return static_cast<std::size_t>(dense - groups.begin());
}

// From whole packs of gradients (and of the metrics) to the states of after the step; `tables` has
// the gradients of groups that have no pack. `told` is the metrics for servers that hold tables
// alone, -1 else, `scaling` the state of loss scaling, likewise. What the gradients are divided by.
Result<ValueId> emitUpdates(GraphBuilder& build, const StepProgram& program,
                            const std::vector<ValueId>& parameters,
                            const std::vector<ValueId>& packs, ValueId told, ValueId scaling,
                            const Tables& tables, const Optimizer& optimizer,
                            const Grouping& grouping) {
  build.phase = Phase::kOptimizer;
  const std::vector<Group>& groups = program.groups;
  const std::size_t metricsPack = program.metricsPack;
  const bool inGroup = metricsPack < groups.size();
  const std::int64_t tail = inGroup ? groups[metricsPack].count : 0;
  build.stage = inGroup ? groups[metricsPack].kind.stage
                        : build.graph.node(build.graph.value(packs[metricsPack]).producer).stage;
  LOCKSTEP_ASSIGN(const ValueId reduced,
                  build.slice("metrics", packs[metricsPack], tail, {3 + program.metricSums}));
  const int known = told >= 0 ? 0 : grouping.everywhere;
  build.stage = known;
  LOCKSTEP_ASSIGN(const ValueId norm, build.slice("metrics.weight", reduced, 1, {1}));
  std::vector<ValueId> gradients = packs;
  if (metricsPack < groups.size()) {
    build.stage = groups[metricsPack].kind.stage;
    LOCKSTEP_ASSIGN(gradients[metricsPack],
                    build.slice(indexed("grads", metricsPack) + ".gradients", packs[metricsPack], 0,
                                {groups[metricsPack].count}));
  }
  std::map<int, ValueId> norms;
  for (const Group& group : groups) {
    if (told < 0 || !group.kind.served || norms.contains(group.kind.stage)) continue;
    build.stage = group.kind.stage;
    const std::string name = fmt::format("metrics.server.{}", group.kind.stage);
    LOCKSTEP_ASSIGN(const ValueId sums, build.slice(name, told, 0, {3 + program.metricSums}));
    LOCKSTEP_ASSIGN(norms[group.kind.stage], build.slice(name + ".weight", sums, 1, {1}));
    LOCKSTEP_TRY(addMetrics(build, program.metric, sums, name));
  }
  build.stage = grouping.everywhere;
  LOCKSTEP_ASSIGN(const ValueId divisor, emitOptimizer(build, groups, parameters, gradients, tables,
                                                       norm, optimizer, grouping, scaling, norms));
  build.stage = known;
  LOCKSTEP_TRY(addMetrics(build, program.metric, reduced));
  return divisor;
}

// Gradients as they are without loss scaling.
Result<ValueId> unscaled(GraphBuilder& build, const std::string& name, ValueId gradients,
                         ValueId seed) {
  LOCKSTEP_ASSIGN(const ValueId one, build.fill(name + ".one", {1}, 1.0));
  return build.add(Op::kWeigh, name, {gradients, one, seed}, {});
}

// Each worker's gradients as their mean, to the servers, which update by them.
Status emitPushes(GraphBuilder& build, const StepProgram& program,
                  const std::vector<ValueId>& parameters, const std::vector<ValueId>& packs,
                  const Tables& tables, const Optimizer& optimizer, const Grouping& grouping) {
  const std::vector<Group>& groups = program.groups;
  build.phase = Phase::kOptimizer;
  build.stage = 0;
  std::vector<ValueId> own;
  for (std::size_t k = 0; k < packs.size(); ++k) {
    own.push_back(-1);
    if (k < groups.size() && groups[k].kind.served) continue;  // it is on the server
    LOCKSTEP_ASSIGN(own.back(), build.add(Op::kOwn, indexed("own", k), {packs[k]}, {}));
  }
  const ValueId metrics = own.back();
  LOCKSTEP_ASSIGN(ValueId divisor, build.slice("own.weight", metrics, 1, {1}));
  if (optimizer.clipNorm > 0) {
    std::vector<Group> here = groups;
    for (Group& group : here) group.kind.stage = 0;
    LOCKSTEP_ASSIGN(const ValueId squares, sumOfSquares(build, here, own, {}, grouping));
    LOCKSTEP_ASSIGN(divisor, clipped(build, grouping, divisor, squares, optimizer.clipNorm));
  }
  LOCKSTEP_ASSIGN(const ValueId one, build.fill("one", {1}, 1.0));
  LOCKSTEP_ASSIGN(const ValueId rate, build.input("lr"));
  LOCKSTEP_ASSIGN(const ValueId updates, build.input("t"));
  for (std::size_t k = 0; k < groups.size(); ++k) {
    Optimizer mine = optimizer;
    if (groups[k].kind.spared) mine.weightDecay = 0;
    build.stage = groups[k].kind.stage;
    if (groups[k].kind.table > 0) {
      LOCKSTEP_ASSIGN(const CombinedRows gradient, combineRows(build, k, tables.at(k)));
      LOCKSTEP_TRY(emitRowUpdate(build, mine, k, groups[k].count, parameters[k], gradient,
                                 tables.at(k).part, divisor, rate));
      continue;
    }
    if (groups[k].kind.served) {
      LOCKSTEP_TRY(emitUpdate(build, mine, k, groups[k].count, parameters[k], packs[k], divisor,
                              rate, updates));
      continue;
    }
    build.stage = 0;
    LOCKSTEP_ASSIGN(const ValueId mean,
                    build.add(Op::kWeigh, indexed("mean", k), {own[k], one, divisor}, {}));
    build.stage = groups[k].kind.stage;
    LOCKSTEP_TRY(
        emitUpdate(build, mine, k, groups[k].count, parameters[k], mean, one, rate, updates));
  }
  const auto result = [&](const std::string& name, int stage, ValueId value) {
    build.stage = stage;
    return build.add(Op::kResult, name + ".result", {value}, {{"name", name}}).status();
  };
  build.stage = 0;
  LOCKSTEP_TRY(addMetrics(build, program.metric, metrics));
  LOCKSTEP_TRY(result("pushed", 1, metrics));
  build.stage = 1;
  Attrs attrs = build.typed({2});
  attrs["name"] = std::string("control");
  LOCKSTEP_ASSIGN(const ValueId control, build.add(Op::kInput, "control", {}, std::move(attrs)));
  LOCKSTEP_ASSIGN(const ValueId given,
                  build.add(Op::kScale, "control.copy", {control}, {{"factor", 1.0}}));
  LOCKSTEP_TRY(result("control", 0, given));
  if (grouping.servers == 1) return {};
  build.stage = 0;
  LOCKSTEP_ASSIGN(const ValueId relayed,
                  build.add(Op::kScale, "control.relayed", {given}, {{"factor", 1.0}}));
  for (int server = 2; server <= grouping.servers; ++server) {
    LOCKSTEP_TRY(result(fmt::format("control.{}", server), server, relayed));
  }
  return {};
}

Status storeZeros(GraphBuilder& build, const StepProgram& step) {
  for (const StepProgram::Sum& sum : step.sums) {
    build.stage = sum.stage;
    LOCKSTEP_ASSIGN(const ValueId zeros, build.fill(sum.state + ".zero", {sum.count}, 0.0));
    LOCKSTEP_TRY(build.store(sum.state, zeros));
  }
  return {};
}

// What follows the last micro-batch: the update, from what has been added up, and zeros in its
// place.
Result<ir::Graph> updateProgram(const std::string& model, DType dtype, const StepProgram& step,
                                const Optimizer& optimizer, const Grouping& grouping) {
  ir::Graph graph(model);
  GraphBuilder build{graph, dtype, Phase::kOptimizer};
  std::vector<ValueId> parameters, packs;
  for (std::size_t k = 0; k < step.groups.size(); ++k) {
    build.stage = step.groups[k].kind.stage;
    LOCKSTEP_ASSIGN(const ValueId state, build.state(indexed("params", k), step.groups[k].count));
    parameters.push_back(state);
  }
  ValueId told = -1, scaling = -1, seed = -1;
  if (grouping.scaling) {
    LOCKSTEP_ASSIGN(scaling, scalingState(build, *grouping.scaling, grouping.servers > 0));
    build.stage = grouping.everywhere;
    if (grouping.compressed) {
      LOCKSTEP_ASSIGN(seed, lossSeed(build, *grouping.scaling, scaling, std::string(kSeed)));
    }
  }
  const std::size_t ofStatistics = step.sums.size() - step.statistics.size();
  for (std::size_t k = 0; k < ofStatistics; ++k) {
    const StepProgram::Sum& sum = step.sums[k];
    const std::string name = k < step.groups.size() ? indexed("grads", k) : "sums.whole";
    build.stage = sum.stage;
    LOCKSTEP_ASSIGN(const ValueId sums, build.state(sum.state, sum.count));
    if (k == step.metricsPack) {
      build.stage = grouping.everywhere;
      LOCKSTEP_ASSIGN(const ValueId stop, stopWish(build, grouping.agree));
      build.stage = sum.stage;
      LOCKSTEP_ASSIGN(const ValueId pack, build.add(Op::kPack, name, {sums, stop}, {}));
      packs.push_back(pack);
      if (!grouping.tablesAlone()) continue;
      const std::int64_t metrics = 2 + step.metricSums;
      LOCKSTEP_ASSIGN(const ValueId tail,
                      build.slice("sums.tail", sums, sum.count - metrics, {metrics}));
      LOCKSTEP_ASSIGN(told, build.add(Op::kPack, "metrics.servers", {tail, stop}, {}));
    } else if (seed >= 0) {
      LOCKSTEP_ASSIGN(const ValueId mine, unscaled(build, name, sums, seed));
      packs.push_back(mine);
    } else {
      LOCKSTEP_ASSIGN(const ValueId copy, build.add(Op::kScale, name, {sums}, {{"factor", 1.0}}));
      packs.push_back(copy);
    }
  }
  LOCKSTEP_ASSIGN(const ValueId norm, emitUpdates(build, step, parameters, packs, told, scaling, {},
                                                  optimizer, grouping));
  build.phase = Phase::kOptimizer;
  for (std::size_t k = 0; k < step.statistics.size(); ++k) {
    const Group& group = step.statistics[k];
    const StepProgram::Sum& sum = step.sums[ofStatistics + k];
    build.stage = sum.stage;
    LOCKSTEP_ASSIGN(const ValueId state, build.state(indexed("stats", k), group.count));
    LOCKSTEP_ASSIGN(const ValueId sums, build.state(sum.state, sum.count));
    LOCKSTEP_ASSIGN(const ValueId added,
                    build.add(Op::kScale, indexed("statistics", k), {sums}, {{"factor", 1.0}}));
    LOCKSTEP_ASSIGN(
        const ValueId next,
        nextStatistics(build, step, k, added, [&](const std::string& name) -> Result<ValueId> {
          const auto member =
              std::find_if(group.members.begin(), group.members.end(),
                           [&](const Group::Member& one) { return one.name == name; });
          return build.slice(name, state, member->element, member->shape);
        }));
    LOCKSTEP_TRY(storeStatistics(build, step, k, next, state, scaling >= 0 ? norm : -1));
  }
  LOCKSTEP_TRY(storeZeros(build, step));
  return graph;
}

// What each rank's own updates make of the state, averaged by how much their samples weighed.
Result<ir::Graph> averageProgram(const std::string& model, DType dtype, const StepProgram& step,
                                 const Optimizer& optimizer, const Grouping& grouping) {
  ir::Graph graph(model);
  GraphBuilder build{graph, dtype, Phase::kOptimizer};
  LOCKSTEP_ASSIGN(std::vector<std::string> kinds, optimizerStates(optimizer));
  kinds.insert(kinds.begin(), "params");
  const StepProgram::Sum& sum = step.sums[0];
  LOCKSTEP_ASSIGN(const ValueId sums, build.state(sum.state, sum.count));
  LOCKSTEP_ASSIGN(const ValueId own, build.slice("metrics.own", sums, 1, {1}));
  LOCKSTEP_ASSIGN(const ValueId stop, stopWish(build, grouping.agree));
  LOCKSTEP_ASSIGN(const ValueId metrics, build.add(Op::kPack, "metrics", {sums, stop}, {}));
  LOCKSTEP_ASSIGN(const ValueId total, build.slice("metrics.weight", metrics, 1, {1}));
  for (const std::string& kind : kinds) {
    for (std::size_t k = 0; k < step.groups.size(); ++k) {
      const std::string name = indexed(kind, k);
      LOCKSTEP_ASSIGN(const ValueId state, build.state(name, step.groups[k].count));
      LOCKSTEP_ASSIGN(const ValueId mean,
                      build.add(Op::kWeigh, name + ".mean", {state, own, total}, {}));
      LOCKSTEP_TRY(build.store(name, mean));
    }
  }
  LOCKSTEP_TRY(addMetrics(build, step.metric, metrics));
  LOCKSTEP_TRY(storeZeros(build, step));
  return graph;
}

}  // namespace

Result<ir::Graph> trainGraph(const ir::ModelGraph& model) {
  if (model.parameters.empty()) {
    return invalidArgument("the model has no parameters to train");
  }
  std::vector<std::string> names;
  for (const ir::Parameter& parameter : model.parameters) names.push_back(parameter.name);
  LOCKSTEP_ASSIGN(Differentiated full, autodiff(model.graph, model.loss, names));
  GraphBuilder build{full.graph, model.compute, Phase::kBackward};
  for (std::size_t i = 0; i < names.size(); ++i) {
    build.stage = full.graph.find(names[i])->stage;
    LOCKSTEP_TRY(build.store(std::string(kGradient) + names[i], full.gradients[i]));
  }
  LOCKSTEP_TRY(addResults(build, model));
  return std::move(full.graph);
}

Result<ir::Graph> evaluateGraph(const ir::ModelGraph& model) {
  ir::Graph graph = model.graph;
  GraphBuilder build{graph, model.compute, Phase::kForward};
  LOCKSTEP_TRY(addResults(build, model));
  return graph;
}

namespace {

// Whether a parameter's gradient is made of fewer rows than the parameter has, each row's update
// depends on its own gradient alone, and none moves without one.
bool updatedByRows(const ir::Graph& train, ValueId gradient, const Optimizer& optimizer,
                   const Grouping& grouping, bool served) {
  const ir::Node& node = train.node(train.value(gradient).producer);
  const bool still =
      optimizer.kind == "adagrad" || (optimizer.kind == "sgd" && optimizer.momentum == 0);
  if (!still || optimizer.weightDecay != 0 || optimizer.clipNorm != 0 || grouping.accumulate ||
      node.op != Op::kEmbeddingGrad)
    return false;
  return served || (!grouping.local && grouping.parts == 1 && grouping.servers == 0 &&
                    train.value(node.inputs[1]).type.count() < train.value(gradient).type.count());
}

// The type to which all that reads a parameter casts it, where there is one.
std::optional<DType> narrowedTo(const ir::Graph& train, const std::string& parameter) {
  const ir::Node* const node = train.find(parameter);
  if (node == nullptr) return std::nullopt;
  const ValueId state = node->outputs[0];
  std::optional<DType> type;
  for (const ir::Node& reader : train.nodes()) {
    if (std::find(reader.inputs.begin(), reader.inputs.end(), state) == reader.inputs.end())
      continue;
    if (reader.op != Op::kCast) return std::nullopt;
    type = train.value(reader.outputs[0]).type.dtype;
  }
  return type;
}

TableRows tableRows(const ir::Node& gradient, const Rewrite& values) {
  TableRows out{values(gradient.inputs[0]), values(gradient.inputs[1]), {}};
  const std::int64_t channels = ir::listAttr(gradient.attrs, "shape")[1];
  out.part["first"] = channels * ir::intAttr(gradient.attrs, "first");
  if (const std::string_view axis = ir::textAttr(gradient.attrs, "axis"); !axis.empty()) {
    out.part["axis"] = std::string(axis);
    out.part["stride"] = channels * ir::intAttr(gradient.attrs, "stride");
  }
  return out;
}

}  // namespace

// Of the parameters that several servers share, so many groups for each where they are small
// enough.
constexpr int kGroupsOfServer = 4;

Result<StepProgram> stepProgram(const ir::Graph& train, const TrainOptions& options,
                                const Grouping& grouping) {
  // Parameters in the order in which their gradients are there.
  const Sinks sinks = sinksOf(train);
  const DType dtype = dtypeOf(train, sinks);
  std::vector<ir::Parameter> order, statistics;
  std::vector<GroupKind> statisticKinds;
  for (const ir::Node& node : train.nodes()) {
    if (node.op != Op::kStore) continue;
    std::string_view name = ir::textAttr(node.attrs, "state");
    const bool isGradient = name.starts_with(kGradient);
    if (isGradient) name.remove_prefix(kGradient.size());
    (isGradient ? order : statistics)
        .push_back({std::string(name), train.value(node.inputs[0]).type.shape, "", 0, 0});
    if (!isGradient) statisticKinds.push_back({.stage = node.stage});
  }
  const auto gradientOf = [&](const std::string& parameter) {
    return sinks.find(std::string(kGradient) + parameter)->second;
  };
  std::stable_sort(order.begin(), order.end(), [&](const auto& a, const auto& b) {
    return train.value(gradientOf(a.name)).producer < train.value(gradientOf(b.name)).producer;
  });
  const Optimizer& optimizer = options.optimizer;
  const auto bytesOf = [&](const ir::Parameter& parameter) {
    return elementCount(parameter.shape) * static_cast<std::int64_t>(sizeOf(dtype));
  };
  std::int64_t bucketBytes = grouping.bucketBytes;
  if (grouping.servers > 1) {
    std::int64_t all = 0;
    for (const ir::Parameter& parameter : order) all += bytesOf(parameter);
    bucketBytes =
        std::clamp<std::int64_t>(all / (kGroupsOfServer * grouping.servers), 1, bucketBytes);
  }
  std::vector<GroupKind> kinds;
  for (const ir::Parameter& parameter : order) {
    const bool spared = optimizer.decayMatricesOnly && parameter.shape.size() < 2;
    const bool apart =
        (optimizer.clipNorm > 0 || grouping.scaling) && grouping.divided.contains(parameter.name);
    const ValueId gradient = gradientOf(parameter.name);
    const int stage = train.node(train.value(gradient).producer).stage;
    const bool served = grouping.served.contains(parameter.name);
    const bool table = updatedByRows(train, gradient, optimizer, grouping, served);
    const bool large = grouping.servers > 1 && bytesOf(parameter) >= bucketBytes;
    kinds.push_back({stage, spared, table ? static_cast<int>(kinds.size()) + 1 : 0, apart, served,
                     narrowedTo(train, parameter.name), large});
  }
  StepProgram program;
  program.scaling = grouping.scaling;
  program.metric = metricOf(train);
  if (!program.metric.empty())
    program.metricSums = train.value(sinks.at(program.metric)).type.count();
  program.groups = formGroups(order, dtype, bucketBytes, grouping.parts, kinds);
  std::vector<std::int64_t> load(static_cast<std::size_t>(grouping.servers), 0);
  for (const Group& group : program.groups)
    if (group.kind.served && !load.empty())
      load[static_cast<std::size_t>(group.kind.stage) - 1] += group.count;
  // The largest first, each to the server that has least.
  std::vector<Group*> whole;
  for (Group& group : program.groups)
    if (!load.empty() && !group.kind.served) whole.push_back(&group);
  std::stable_sort(whole.begin(), whole.end(),
                   [](const Group* a, const Group* b) { return a->count > b->count; });
  for (Group* group : whole) {
    const auto least = std::min_element(load.begin(), load.end());
    group->kind.stage = 1 + static_cast<int>(least - load.begin());
    *least += group->count;
  }
  // The metrics go to the first server, and with them the group that they are in.
  const auto first =
      std::find_if(program.groups.begin(), program.groups.end(),
                   [](const Group& group) { return group.kind.table == 0 && !group.kind.served; });
  if (!whole.empty() && first != program.groups.end()) {
    const int its = first->kind.stage;
    for (Group* group : whole) {
      if (group->kind.stage == its)
        group->kind.stage = 1;
      else if (group->kind.stage == 1)
        group->kind.stage = its;
    }
  }
  program.statistics =
      formGroups(statistics, dtype, std::numeric_limits<std::int64_t>::max(), 1, statisticKinds);
  program.running = runningOf(train, program.statistics);

  // A group is packed right after the node that fills its last gradient; the metrics are the tail
  // of the first group, or a group of their own.
  const std::size_t groups = program.groups.size();
  const std::size_t metricsPack = program.metricsPack = metricsPackOf(
      program.groups, grouping, train.node(train.value(sinks.at("loss")).producer).stage);
  std::vector<ir::NodeId> complete(std::max(groups, metricsPack + 1), 0);
  const auto await = [&](std::size_t k, ValueId value) {
    complete[k] = std::max(complete[k], train.value(value).producer);
  };
  for (std::size_t k = 0; k < groups; ++k) {
    for (const Group::Member& member : program.groups[k].members) {
      await(k, gradientOf(member.name));
    }
  }
  for (const std::string& sum : {std::string("loss"), std::string("weight"), program.metric}) {
    if (!sum.empty()) await(metricsPack, sinks.at(sum));
  }

  Rewrite rewrite(train);
  GraphBuilder build{rewrite.to(), dtype, Phase::kBackward};
  std::vector<ValueId> packs(complete.size(), -1);
  ValueId told = -1, seed = -1;
  Tables tables;
  const auto packComplete = [&](ir::NodeId node) -> Status {
    for (std::size_t k = 0; k < packs.size(); ++k) {
      if (complete[k] != node) continue;
      if (k < groups && program.groups[k].kind.table > 0) {
        TableRows& table = tables.emplace(k, tableRows(train.node(node), rewrite)).first->second;
        if (seed < 0 || !grouping.compressed) continue;
        build.stage = train.node(node).stage;
        LOCKSTEP_ASSIGN(table.rows,
                        unscaled(build, indexed("rows", k) + ".unscaled", table.rows, seed));
        continue;
      }
      build.stage = train.node(node).stage;
      std::vector<ValueId> members;
      for (std::size_t m = 0; k < groups && m < program.groups[k].members.size(); ++m) {
        const Group::Member& member = program.groups[k].members[m];
        members.push_back(rewrite(gradientOf(member.name)));
        if (member.padding == 0) continue;
        LOCKSTEP_ASSIGN(const ValueId zeros,
                        build.fill(member.name + ".padding", {member.padding}, 0.0));
        members.push_back(zeros);
      }
      if (k == metricsPack) {
        const std::vector<ValueId> metrics = sumMembers(sinks, program.metric, rewrite);
        members.insert(members.end(), metrics.begin(), metrics.end());
        if (!grouping.accumulate && !grouping.local) {
          LOCKSTEP_ASSIGN(const ValueId stop, stopWish(build, grouping.agree));
          members.push_back(stop);
          if (grouping.tablesAlone()) {
            std::vector<ValueId> sums = metrics;
            sums.push_back(stop);
            LOCKSTEP_ASSIGN(told, build.add(Op::kPack, "metrics.servers", std::move(sums), {}));
          }
        }
      }
      const bool scales = k < groups && seed >= 0 && grouping.compressed && !grouping.accumulate;
      const std::string name = k < groups ? indexed("grads", k) : "sums";
      LOCKSTEP_ASSIGN(
          packs[k], build.add(Op::kPack, scales ? name + ".scaled" : name, std::move(members), {}));
      if (!scales) continue;
      LOCKSTEP_ASSIGN(packs[k], unscaled(build, name, packs[k], seed));
    }
    return {};
  };
  ValueId scaling = -1;
  if (const ir::Node* const start = train.find(kSeed); grouping.scaling && start != nullptr) {
    build.phase = Phase::kForward;
    LOCKSTEP_ASSIGN(scaling, scalingState(build, *grouping.scaling, grouping.servers > 0));
    build.phase = start->phase;
    build.stage = start->stage;
    LOCKSTEP_ASSIGN(seed, lossSeed(build, *grouping.scaling, scaling, std::string(kSeed)));
    rewrite.replace(start->outputs[0], seed);
  }
  LOCKSTEP_ASSIGN(const GroupStates states,
                  copyWithGroups(train, dtype, program, rewrite, packComplete, grouping.apart));
  build.phase = Phase::kBackward;
  if (grouping.apart) {
    LOCKSTEP_TRY(
        emitPushes(build, program, states.parameters, packs, tables, options.optimizer, grouping));
    program.graph = rewrite.take();
    return program;
  }
  if (grouping.local) {
    LOCKSTEP_ASSIGN(const std::vector<ValueId> statistics, nextStatistics(build, program, rewrite));
    build.phase = Phase::kOptimizer;
    std::vector<ValueId> own;
    for (std::size_t k = 0; k < packs.size(); ++k) {
      LOCKSTEP_ASSIGN(const ValueId mine, build.add(Op::kOwn, indexed("own", k), {packs[k]}, {}));
      own.push_back(mine);
    }
    LOCKSTEP_ASSIGN(const ValueId norm, build.slice("own.weight", own.back(), 1, {1}));
    LOCKSTEP_ASSIGN(const ValueId divisor,
                    emitOptimizer(build, program.groups, states.parameters, own, tables, norm,
                                  options.optimizer, grouping, scaling));
    LOCKSTEP_TRY(storeStatistics(build, program, statistics, states.statistics,
                                 scaling >= 0 ? divisor : -1));
  } else if (!grouping.accumulate) {
    LOCKSTEP_ASSIGN(const std::vector<ValueId> statistics, nextStatistics(build, program, rewrite));
    if (scaling < 0)
      LOCKSTEP_TRY(storeStatistics(build, program, statistics, states.statistics, -1));
    LOCKSTEP_ASSIGN(const ValueId divisor,
                    emitUpdates(build, program, states.parameters, packs, told, scaling, tables,
                                options.optimizer, grouping));
    if (scaling >= 0)
      LOCKSTEP_TRY(storeStatistics(build, program, statistics, states.statistics, divisor));
    program.graph = rewrite.take();
    return program;
  }
  for (std::size_t k = grouping.local ? metricsPack : 0; k < packs.size(); ++k) {
    const std::string name = k < groups ? indexed("sums", k) : "sums.metrics";
    const std::int64_t count = build.graph.value(packs[k]).type.count();
    build.stage = build.graph.node(build.graph.value(packs[k]).producer).stage;
    program.sums.push_back({name, count, build.stage});
    LOCKSTEP_ASSIGN(const ValueId before, build.state(name, count));
    LOCKSTEP_ASSIGN(const ValueId after, build.add(grouping.inOrder ? Op::kAddRanks : Op::kAdd,
                                                   name + ".add", {before, packs[k]}, {}));
    LOCKSTEP_TRY(build.store(name, after));
  }
  build.phase = Phase::kForward;
  for (std::size_t k = 0; k < program.statistics.size() && grouping.accumulate; ++k) {
    build.stage = program.statistics[k].kind.stage;
    LOCKSTEP_ASSIGN(const ValueId sums, packStatistics(build, program, k, rewrite));
    StepProgram::Sum sum{"sums." + indexed("stats", k), build.graph.value(sums).type.count(),
                         build.stage};
    sum.whole = std::any_of(program.running.begin(), program.running.end(),
                            [&](const auto& one) { return one.group == k && one.whole; });
    LOCKSTEP_ASSIGN(const ValueId before, build.state(sum.state, sum.count));
    LOCKSTEP_ASSIGN(const ValueId after,
                    build.add(Op::kAdd, sum.state + ".add", {before, sums}, {}));
    LOCKSTEP_TRY(build.store(sum.state, after));
    program.sums.push_back(std::move(sum));
  }
  program.graph = rewrite.take();
  LOCKSTEP_ASSIGN(program.last, (grouping.local ? averageProgram : updateProgram)(
                                    train.name(), dtype, program, options.optimizer, grouping));
  return program;
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
  LOCKSTEP_ASSIGN(const ValueId stop, stopWish(build, {}));
  metrics.push_back(stop);
  LOCKSTEP_ASSIGN(const ValueId pack, build.add(Op::kPack, "metrics", std::move(metrics), {}));
  build.stage = everywhere;
  LOCKSTEP_TRY(addMetrics(build, step.metric, pack));
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
  LOCKSTEP_TRY(storeZeros(build, step));
  if (step.scaling) LOCKSTEP_TRY(storeInitialScaling(build, *step.scaling));
  return rewrite.take();
}

}  // namespace lockstep::passes
