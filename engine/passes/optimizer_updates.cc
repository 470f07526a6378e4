#include "engine/passes/optimizer_updates.h"

#include "engine/ir/watch.h"

namespace lockstep::passes {

using ir::Attrs;
using ir::Op;
using ir::Phase;
using ir::ValueId;

namespace {

Result<ValueId> storeUpdated(GraphBuilder& build, Op op, const Optimizer& optimizer, std::size_t k,
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
  return build.graph.output(update);
}

}  // namespace

Result<std::vector<std::string>> optimizerStates(const Optimizer& optimizer) {
  if (optimizer.kind == "adam") return std::vector<std::string>{"adam.m", "adam.v"};
  if (optimizer.kind == "sgd") return std::vector<std::string>{"sgd.v"};
  if (optimizer.kind == "adagrad") return std::vector<std::string>{"adagrad.s"};
  return invalidArgument("unknown optimizer {}; known are sgd, adam and adagrad", optimizer.kind);
}

Result<ValueId> emitUpdate(GraphBuilder& build, const Optimizer& optimizer, std::size_t k,
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

Result<ValueId> emitRowUpdate(GraphBuilder& build, const Optimizer& optimizer, std::size_t k,
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

Result<ValueId> sumOfSquares(GraphBuilder& build, const std::string& name, int at,
                             const std::vector<Group>& groups, const std::vector<ValueId>& values,
                             const std::map<std::size_t, CombinedRows>& rows,
                             const StepLayout& layout) {
  ValueId total = -1;
  build.stage = at;
  for (const bool divided : {true, false}) {
    for (std::size_t k = 0; k < groups.size(); ++k) {
      if (groups[k].kind.divided != divided) continue;
      build.stage = groups[k].kind.stage;
      const auto table = rows.find(k);
      LOCKSTEP_ASSIGN(
          const ValueId squares,
          build.add(Op::kSumSquares, indexed(name, k),
                    table == rows.end() ? std::vector{values[k]}
                                        : std::vector{table->second.sums, table->second.ids},
                    {}));
      build.stage = at;
      if (total < 0) {
        total = squares;
        continue;
      }
      LOCKSTEP_ASSIGN(total, build.add(Op::kAdd, indexed(name + ".sum", k), {total, squares}, {}));
    }
    if (!divided || total < 0) continue;
    LOCKSTEP_ASSIGN(total, build.add(Op::kAllReduce, name + ".divided", {total},
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

// Measures an update for people to watch: adds nodes of phase watch round those that update.
class UpdateWatch {
 public:
  UpdateWatch(GraphBuilder& build, const std::vector<Group>& groups, const StepLayout& layout)
      : build_(build),
        groups_(groups),
        layout_(layout),
        whole_(layout.update == UpdateKind::kSynchronous ||
               layout.update == UpdateKind::kAccumulating) {}

  bool measures() const { return whole_ && layout_.watch.every > 0; }

  // Before any update.
  Status begin(const std::vector<ValueId>& parameters) {
    if (!measuresRatio()) return {};
    build_.phase = Phase::kWatch;
    LOCKSTEP_ASSIGN(before_,
                    sumOfSquares(build_, "watch.parameters", 0, groups_, parameters, {}, layout_));
    build_.phase = Phase::kOptimizer;
    return {};
  }
  // Round the update of group k.
  Status before(std::size_t k, ValueId parameters) {
    if (!measuresRatio()) return {};
    return watching(k, Op::kScale, indexed("watch.before", k), {parameters}, {{"factor", -1.0}});
  }
  Status after(std::size_t k, ValueId updated) {
    if (!measuresRatio()) return {};
    return watching(k, Op::kAdd, indexed("watch.moved", k), {moved_[k], updated}, {});
  }
  // After all updates. `squares` of the gradients where the update needs them; −1: it does not.
  Status end(const std::vector<ValueId>& gradients, const std::map<std::size_t, CombinedRows>& rows,
             ValueId squares, ValueId divisor) {
    if (!measures() && (!whole_ || squares < 0)) return {};
    build_.phase = Phase::kWatch;
    if (squares < 0) {
      LOCKSTEP_ASSIGN(squares,
                      sumOfSquares(build_, "squares", 0, groups_, gradients, rows, layout_));
    }
    LOCKSTEP_TRY(result(ir::kGradientSquares, squares));
    LOCKSTEP_TRY(result(ir::kGradientDivisor, divisor));
    if (measuresRatio()) {
      LOCKSTEP_ASSIGN(const ValueId update,
                      sumOfSquares(build_, "watch.update", 0, groups_, moved_, {}, layout_));
      LOCKSTEP_TRY(result(ir::kUpdateSquares, update));
      LOCKSTEP_TRY(result(ir::kParameterSquares, before_));
    }
    build_.phase = Phase::kOptimizer;
    return {};
  }

 private:
  bool measuresRatio() const { return measures() && layout_.watch.updateRatio; }
  Status watching(std::size_t k, Op op, std::string name, std::vector<ValueId> inputs,
                  Attrs attrs) {
    build_.phase = Phase::kWatch;
    build_.stage = groups_[k].kind.stage;
    moved_.resize(groups_.size(), -1);
    LOCKSTEP_ASSIGN(moved_[k],
                    build_.add(op, std::move(name), std::move(inputs), std::move(attrs)));
    build_.phase = Phase::kOptimizer;
    return {};
  }
  Status result(std::string_view name, ValueId value) {
    build_.stage = 0;
    return build_
        .add(Op::kResult, fmt::format("{}.result", name), {value}, {{"name", std::string(name)}})
        .status();
  }

  GraphBuilder& build_;
  const std::vector<Group>& groups_;
  const StepLayout& layout_;
  const bool whole_;  // gradients are those of the whole batch
  ValueId before_ = -1;
  std::vector<ValueId> moved_;  // by group
};

}  // namespace

Result<ValueId> emitOptimizer(GraphBuilder& build, const std::vector<Group>& groups,
                              const std::vector<ValueId>& parameters,
                              const std::vector<ValueId>& gradients, const Tables& tables,
                              ValueId norm, const Optimizer& optimizer, const StepLayout& layout,
                              ValueId scaling, const std::map<int, ValueId>& norms) {
  LOCKSTEP_ASSIGN(const ValueId rate, build.input("lr"));
  LOCKSTEP_ASSIGN(ValueId updates, build.input("t"));
  UpdateWatch watch(build, groups, layout);
  std::map<std::size_t, CombinedRows> rows;
  const auto combine = [&](std::size_t k) -> Status {
    if (rows.contains(k)) return {};
    build.stage = groups[k].kind.stage;
    LOCKSTEP_ASSIGN(rows[k], combineRows(build, k, tables.at(k)));
    return {};
  };
  ValueId divisor = norm, squares = -1;
  for (const auto& [k, table] : tables)
    if (scaling >= 0) LOCKSTEP_TRY(combine(k));
  if (scaling >= 0 || optimizer.clipNorm > 0) {
    LOCKSTEP_ASSIGN(squares, sumOfSquares(build, "squares", layout.everywhere, groups, gradients,
                                          rows, layout));
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
  const ValueId unclipped = divisor;
  if (optimizer.clipNorm > 0) {
    LOCKSTEP_ASSIGN(divisor, clipped(build, layout, divisor, squares, optimizer.clipNorm));
  }
  LOCKSTEP_TRY(watch.begin(parameters));
  for (std::size_t k = 0; k < groups.size(); ++k) {
    LOCKSTEP_TRY(watch.before(k, parameters[k]));
    build.stage = groups[k].kind.stage;
    const auto known = norms.find(build.stage);
    const ValueId by = known == norms.end() ? divisor : known->second;
    ValueId updated = -1;
    if (groups[k].kind.table > 0) {
      LOCKSTEP_TRY(combine(k));
      LOCKSTEP_ASSIGN(updated, emitRowUpdate(build, optimizer, k, groups[k], parameters[k],
                                             rows.at(k), tables.at(k).part, by, rate));
    } else {
      LOCKSTEP_ASSIGN(updated, emitUpdate(build, optimizer, k, groups[k], parameters[k],
                                          gradients[k], by, rate, updates));
    }
    LOCKSTEP_TRY(watch.after(k, updated));
  }
  LOCKSTEP_TRY(watch.end(gradients, rows, squares, unclipped));
  return divisor;
}

}  // namespace lockstep::passes
