#include "engine/passes/optimizer_updates.h"

namespace lockstep::passes {

using ir::Attrs;
using ir::Op;
using ir::Phase;
using ir::ValueId;

namespace {

Status storeUpdated(GraphBuilder& build, Op op, const Optimizer& optimizer, std::size_t k,
                    std::vector<ValueId> inputs, Attrs attrs) {
  LOCKSTEP_ASSIGN(const std::vector<std::string> prefixes, optimizerStates(optimizer));
  LOCKSTEP_ASSIGN(const ir::NodeId update,
                  build.graph.add(op, indexed(optimizer.kind, k), std::move(inputs),
                                  std::move(attrs), Phase::kOptimizer));
  build.graph.setStage(update, build.stage);
  LOCKSTEP_TRY(build.store(indexed("params", k), build.graph.output(update)));
  for (std::size_t i = 0; i < prefixes.size(); ++i) {
    LOCKSTEP_TRY(
        build.store(indexed(prefixes[i], k), build.graph.output(update, static_cast<int>(i) + 1)));
  }
  return {};
}

}  // namespace

Result<std::vector<std::string>> optimizerStates(const Optimizer& optimizer) {
  if (optimizer.kind == "adam") return std::vector<std::string>{"adam.m", "adam.v"};
  if (optimizer.kind == "sgd") return std::vector<std::string>{"sgd.v"};
  if (optimizer.kind == "adagrad") return std::vector<std::string>{"adagrad.s"};
  return invalidArgument("unknown optimizer {}; known are sgd, adam and adagrad", optimizer.kind);
}

Status emitUpdate(GraphBuilder& build, const Optimizer& optimizer, std::size_t k,
                  const Group& group, ValueId parameters, ValueId gradients, ValueId norm,
                  ValueId rate, ValueId updates) {
  LOCKSTEP_ASSIGN(const std::vector<std::string> prefixes, optimizerStates(optimizer));
  std::vector<ValueId> inputs{parameters, gradients};
  for (const std::string& prefix : prefixes) {
    LOCKSTEP_ASSIGN(const ValueId state, build.state(indexed(prefix, k), group.count));
    inputs.push_back(state);
  }
  inputs.push_back(norm);
  inputs.push_back(rate);
  Attrs attrs{{"weight_decay", group.kind.noWeightDecay ? 0 : optimizer.weightDecay}};
  Op op = Op::kSgd;
  if (optimizer.kind == "adagrad") {
    op = Op::kAdagrad;
    attrs["eps"] = optimizer.epsilon;
  } else if (optimizer.kind == "adam") {
    op = Op::kAdam;
    inputs.push_back(updates);
    attrs["beta1"] = optimizer.beta1;
    attrs["beta2"] = optimizer.beta2;
    attrs["eps"] = optimizer.epsilon;
  } else {
    attrs["momentum"] = optimizer.momentum;
  }
  return storeUpdated(build, op, optimizer, k, std::move(inputs), std::move(attrs));
}

Result<CombinedRows> combineRows(GraphBuilder& build, std::size_t k, const TableRows& gradient) {
  const std::string name = indexed("rows", k);
  const std::int64_t elements = build.graph.value(gradient.rows).type.count();
  LOCKSTEP_ASSIGN(const ValueId flat, build.add(Op::kReshape, name + ".flat", {gradient.rows},
                                                {{"shape", Shape{elements}}}));
  LOCKSTEP_ASSIGN(const ValueId sums, build.add(Op::kCombineRows, name, {flat, gradient.ids}, {}));
  return CombinedRows{sums, sums + 1};  // outputs of one node are numbered in a row
}

Status emitRowUpdate(GraphBuilder& build, const Optimizer& optimizer, std::size_t k,
                     const Group& group, ValueId parameters, const CombinedRows& gradient,
                     const Attrs& part, ValueId norm, ValueId rate) {
  LOCKSTEP_ASSIGN(const std::vector<std::string> prefixes, optimizerStates(optimizer));
  LOCKSTEP_ASSIGN(const ValueId state, build.state(indexed(prefixes[0], k), group.count));
  Attrs attrs = part;
  const bool sgd = optimizer.kind == "sgd";
  if (!sgd) attrs["eps"] = optimizer.epsilon;
  return storeUpdated(build, sgd ? Op::kSgdRows : Op::kAdagradRows, optimizer, k,
                      {parameters, state, gradient.sums, gradient.ids, norm, rate},
                      std::move(attrs));
}

Result<ValueId> sumOfSquares(GraphBuilder& build, const std::vector<Group>& groups,
                             const std::vector<ValueId>& gradients,
                             const std::map<std::size_t, CombinedRows>& rows,
                             const StepLayout& layout) {
  ValueId total = -1;
  build.stage = layout.everywhere;
  for (const bool divided : {true, false}) {
    for (std::size_t k = 0; k < groups.size(); ++k) {
      if (groups[k].kind.divided != divided) continue;
      build.stage = groups[k].kind.stage;
      const auto table = rows.find(k);
      LOCKSTEP_ASSIGN(
          const ValueId squares,
          build.add(Op::kSumSquares, indexed("squares", k),
                    table == rows.end() ? std::vector{gradients[k]}
                                        : std::vector{table->second.sums, table->second.ids},
                    {}));
      build.stage = layout.everywhere;
      if (total < 0) {
        total = squares;
        continue;
      }
      LOCKSTEP_ASSIGN(total, build.add(Op::kAdd, indexed("squares.sum", k), {total, squares}, {}));
    }
    if (!divided || total < 0) continue;
    LOCKSTEP_ASSIGN(total, build.add(Op::kAllReduce, "squares.divided", {total},
                                     {{"axis", layout.dividedAlong}, {"op", std::string("sum")}}));
  }
  return total;
}

Result<ValueId> clipped(GraphBuilder& build, const StepLayout& layout, ValueId norm,
                        ValueId squares, double limit) {
  build.stage = layout.everywhere;
  return build.add(Op::kClipNorm, "clip", {norm, squares}, {{"limit", limit}});
}

namespace {

// Returns the sum of the local values of all ranks, on each of them.
Result<ValueId> sumOverRanks(GraphBuilder& build, ValueId own) {
  LOCKSTEP_ASSIGN(const ValueId part, build.fill(std::string(kLocalShare), {1}, 1.0));
  LOCKSTEP_ASSIGN(const ValueId one, build.fill("summed.one", {1}, 1.0));
  return build.add(Op::kScaleByRatio, "summed", {own, part, one}, {});
}

}  // namespace

Result<ValueId> emitOptimizer(GraphBuilder& build, const std::vector<Group>& groups,
                              const std::vector<ValueId>& parameters,
                              const std::vector<ValueId>& gradients, const Tables& tables,
                              ValueId norm, const Optimizer& optimizer, const StepLayout& layout,
                              ValueId scaling, const std::map<int, ValueId>& norms) {
  LOCKSTEP_ASSIGN(const ValueId rate, build.input("lr"));
  LOCKSTEP_ASSIGN(ValueId updates, build.input("t"));
  std::map<std::size_t, CombinedRows> rows;
  const auto combined = [&](std::size_t k) -> Result<CombinedRows> {
    if (const auto known = rows.find(k); known != rows.end()) return known->second;
    build.stage = groups[k].kind.stage;
    return combineRows(build, k, tables.at(k));
  };
  ValueId divisor = norm, squares = -1;
  if (scaling >= 0) {
    for (const auto& [k, table] : tables) {
      LOCKSTEP_ASSIGN(rows[k], combined(k));
    }
  }
  if (scaling >= 0 || optimizer.clipNorm > 0) {
    LOCKSTEP_ASSIGN(squares, sumOfSquares(build, groups, gradients, rows, layout));
  }
  if (scaling >= 0) {
    ValueId all = squares;
    build.stage = layout.everywhere;
    if (layout.update == UpdateKind::kLocal) {
      LOCKSTEP_ASSIGN(all, sumOverRanks(build, squares));
    }
    LOCKSTEP_ASSIGN(const Judged judged, judge(build, *layout.scaling, layout.everywhere, scaling,
                                               norm, all, updates, layout.compressed));
    divisor = judged.norm;
    updates = judged.updates;
  }
  if (optimizer.clipNorm > 0) {
    LOCKSTEP_ASSIGN(divisor, clipped(build, layout, divisor, squares, optimizer.clipNorm));
  }
  for (std::size_t k = 0; k < groups.size(); ++k) {
    build.stage = groups[k].kind.stage;
    const auto known = norms.find(build.stage);
    const ValueId by = known == norms.end() ? divisor : known->second;
    if (groups[k].kind.table > 0) {
      LOCKSTEP_ASSIGN(const CombinedRows gradient, combined(k));
      LOCKSTEP_TRY(emitRowUpdate(build, optimizer, k, groups[k], parameters[k], gradient,
                                 tables.at(k).part, by, rate));
      continue;
    }
    LOCKSTEP_TRY(
        emitUpdate(build, optimizer, k, groups[k], parameters[k], gradients[k], by, rate, updates));
  }
  return divisor;
}

}  // namespace lockstep::passes
