#include "engine/passes/update_programs.h"

#include <algorithm>
#include <map>

#include "engine/passes/running_statistics.h"

namespace lockstep::passes {

using ir::Attrs;
using ir::Op;
using ir::Phase;
using ir::ValueId;

Result<ValueId> emitUpdates(GraphBuilder& build, const StepProgram& program,
                            const StepValues& values, const Optimizer& optimizer,
                            const StepLayout& layout) {
  const std::vector<ValueId>& packs = values.packs;
  const ValueId serverMetrics = values.serverMetrics;
  build.phase = Phase::kOptimizer;
  const std::vector<Group>& groups = program.groups;
  const std::size_t metricsPack = program.metricsPack;
  const bool inGroup = metricsPack < groups.size();
  const std::int64_t tail = inGroup ? groups[metricsPack].count : 0;
  // The first server sums up the metrics, also where its groups are parts of tables alone.
  build.stage = inGroup ? groups[metricsPack].kind.stage
                : layout.servers > 0
                    ? 1
                    : build.graph.node(build.graph.value(packs[metricsPack]).producer).stage;
  LOCKSTEP_ASSIGN(const ValueId reduced,
                  build.slice("metrics", packs[metricsPack], tail, {3 + program.metricSums}));
  const int known = serverMetrics >= 0 ? 0 : layout.everywhere;
  build.stage = known;
  LOCKSTEP_ASSIGN(const ValueId norm, build.slice("metrics.divisor", reduced, 1, {1}));
  std::vector<ValueId> gradients = packs;
  if (metricsPack < groups.size()) {
    build.stage = groups[metricsPack].kind.stage;
    LOCKSTEP_ASSIGN(gradients[metricsPack],
                    build.slice(fmt::format("{}{}.gradients", kGroupGradients, metricsPack),
                                packs[metricsPack], 0, {groups[metricsPack].count}));
  }
  std::map<int, ValueId> norms;
  for (const Group& group : groups) {
    if (serverMetrics < 0 || !group.kind.rowSharded || norms.contains(group.kind.stage)) continue;
    build.stage = group.kind.stage;
    const std::string name = fmt::format("metrics.server.{}", group.kind.stage);
    LOCKSTEP_ASSIGN(const ValueId sums,
                    build.slice(name, serverMetrics, 0, {3 + program.metricSums}));
    LOCKSTEP_ASSIGN(norms[group.kind.stage], build.slice(name + ".weight", sums, 1, {1}));
    LOCKSTEP_TRY(addMetrics(build, program.metric, sums, name));
  }
  build.stage = layout.everywhere;
  LOCKSTEP_ASSIGN(const ValueId divisor,
                  emitOptimizer(build, groups, values.parameters, gradients, values.tables, norm,
                                optimizer, layout, values.scaling, norms));
  build.stage = known;
  LOCKSTEP_TRY(addMetrics(build, program.metric, reduced));
  return divisor;
}

Status emitPushes(GraphBuilder& build, const StepProgram& program, const StepValues& values,
                  const Optimizer& optimizer, const StepLayout& layout) {
  const auto& [parameters, packs, tables, serverMetrics, scaling] = values;
  const std::vector<Group>& groups = program.groups;
  build.phase = Phase::kOptimizer;
  build.stage = 0;
  std::vector<ValueId> own;
  for (std::size_t k = 0; k < packs.size(); ++k) {
    own.push_back(-1);
    if (k < groups.size() && groups[k].kind.rowSharded) continue;  // it is on the server
    LOCKSTEP_ASSIGN(own.back(), build.add(Op::kPartialToLocal, indexed("own", k), {packs[k]}, {}));
  }
  const ValueId metrics = own.back();
  LOCKSTEP_ASSIGN(ValueId divisor, build.slice("own.divisor", metrics, 1, {1}));
  if (optimizer.clipNorm > 0) {
    std::vector<Group> here = groups;
    for (Group& group : here) group.kind.stage = 0;
    LOCKSTEP_ASSIGN(const ValueId squares,
                    sumOfSquares(build, "squares", layout.everywhere, here, own, {}, layout));
    LOCKSTEP_ASSIGN(divisor, clipped(build, layout, divisor, squares, optimizer.clipNorm));
  }
  LOCKSTEP_ASSIGN(const ValueId one, build.fill("one", {1}, 1.0));
  LOCKSTEP_ASSIGN(const ValueId rate, build.input("lr"));
  LOCKSTEP_ASSIGN(const ValueId updates, build.input("t"));
  for (std::size_t k = 0; k < groups.size(); ++k) {
    build.stage = groups[k].kind.stage;
    if (groups[k].kind.table > 0) {
      LOCKSTEP_ASSIGN(const CombinedRows gradient, combineRows(build, k, tables.at(k)));
      LOCKSTEP_TRY(emitRowUpdate(build, optimizer, k, groups[k], parameters[k], gradient,
                                 tables.at(k).part, divisor, rate)
                       .status());
      continue;
    }
    if (groups[k].kind.rowSharded) {
      LOCKSTEP_TRY(emitUpdate(build, optimizer, k, groups[k], parameters[k], packs[k], divisor,
                              rate, updates)
                       .status());
      continue;
    }
    build.stage = 0;
    LOCKSTEP_ASSIGN(const ValueId mean,
                    build.add(Op::kScaleByRatio, indexed("mean", k), {own[k], one, divisor}, {}));
    build.stage = groups[k].kind.stage;
    LOCKSTEP_TRY(emitUpdate(build, optimizer, k, groups[k], parameters[k], mean, one, rate, updates)
                     .status());
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
  if (layout.servers == 1) return {};
  build.stage = 0;
  LOCKSTEP_ASSIGN(const ValueId relayed,
                  build.add(Op::kScale, "control.relayed", {given}, {{"factor", 1.0}}));
  for (int server = 2; server <= layout.servers; ++server) {
    LOCKSTEP_TRY(result(fmt::format("control.{}", server), server, relayed));
  }
  return {};
}

Result<ir::Graph> updateProgram(const std::string& model, DType dtype, const StepProgram& step,
                                const Optimizer& optimizer, const StepLayout& layout) {
  ir::Graph graph(model);
  GraphBuilder build{graph, dtype, Phase::kOptimizer};
  StepValues values;
  for (std::size_t k = 0; k < step.groups.size(); ++k) {
    build.stage = step.groups[k].kind.stage;
    LOCKSTEP_ASSIGN(const ValueId state, build.state(indexed("params", k), step.groups[k].count));
    values.parameters.push_back(state);
  }
  ValueId seed = -1;
  if (layout.scaling) {
    LOCKSTEP_ASSIGN(values.scaling, scalingState(build, *layout.scaling, layout.servers > 0));
    build.stage = layout.everywhere;
    if (layout.compressed) {
      LOCKSTEP_ASSIGN(seed, lossSeed(build, *layout.scaling, values.scaling, std::string(kSeed)));
    }
  }
  const std::size_t ofStatistics = step.sums.size() - step.statistics.size();
  for (std::size_t k = 0; k < ofStatistics; ++k) {
    const StepProgram::Sum& sum = step.sums[k];
    const std::string name =
        k < step.groups.size() ? fmt::format("{}{}", kGroupGradients, k) : "sums.whole";
    build.stage = sum.stage;
    LOCKSTEP_ASSIGN(const ValueId sums, build.state(sum.state, sum.count));
    if (k == step.metricsPack) {
      build.stage = layout.everywhere;
      LOCKSTEP_ASSIGN(const ValueId stop, stopRequested(build, layout.syncAxes));
      build.stage = sum.stage;
      LOCKSTEP_ASSIGN(const ValueId pack, build.add(Op::kFlatten, name, {sums, stop}, {}));
      values.packs.push_back(pack);
      if (!layout.onlyTablesOnServers()) continue;
      const std::int64_t metrics = 2 + step.metricSums;
      LOCKSTEP_ASSIGN(const ValueId tail,
                      build.slice("sums.tail", sums, sum.count - metrics, {metrics}));
      LOCKSTEP_ASSIGN(values.serverMetrics,
                      build.add(Op::kFlatten, "metrics.servers", {tail, stop}, {}));
    } else if (seed >= 0) {
      LOCKSTEP_ASSIGN(const ValueId mine, unscaled(build, name, sums, seed));
      values.packs.push_back(mine);
    } else {
      LOCKSTEP_ASSIGN(const ValueId copy, build.add(Op::kScale, name, {sums}, {{"factor", 1.0}}));
      values.packs.push_back(copy);
    }
  }
  LOCKSTEP_ASSIGN(const ValueId norm, emitUpdates(build, step, values, optimizer, layout));
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
    LOCKSTEP_TRY(storeStatistics(build, step, k, next, state, values.scaling >= 0 ? norm : -1));
  }
  LOCKSTEP_TRY(storeZeros(build, step));
  return graph;
}

Result<ir::Graph> averageProgram(const std::string& model, DType dtype, const StepProgram& step,
                                 const Optimizer& optimizer, const StepLayout& layout) {
  ir::Graph graph(model);
  GraphBuilder build{graph, dtype, Phase::kOptimizer};
  LOCKSTEP_ASSIGN(std::vector<std::string> kinds, optimizerStates(optimizer));
  kinds.insert(kinds.begin(), "params");
  const StepProgram::Sum& sum = step.sums[0];
  LOCKSTEP_ASSIGN(const ValueId sums, build.state(sum.state, sum.count));
  LOCKSTEP_ASSIGN(const ValueId own, build.slice("metrics.own", sums, 1, {1}));
  LOCKSTEP_ASSIGN(const ValueId stop, stopRequested(build, layout.syncAxes));
  LOCKSTEP_ASSIGN(const ValueId metrics, build.add(Op::kFlatten, "metrics", {sums, stop}, {}));
  LOCKSTEP_ASSIGN(const ValueId total, build.slice("metrics.divisor", metrics, 1, {1}));
  for (const std::string& kind : kinds) {
    for (std::size_t k = 0; k < step.groups.size(); ++k) {
      const std::string name = indexed(kind, k);
      LOCKSTEP_ASSIGN(const ValueId state, build.state(name, step.groups[k].count));
      LOCKSTEP_ASSIGN(const ValueId mean,
                      build.add(Op::kScaleByRatio, name + ".mean", {state, own, total}, {}));
      LOCKSTEP_TRY(build.store(name, mean));
    }
  }
  LOCKSTEP_TRY(addMetrics(build, step.metric, metrics));
  LOCKSTEP_TRY(storeZeros(build, step));
  return graph;
}

}  // namespace lockstep::passes
