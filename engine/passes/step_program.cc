// Program "step": forward and backward pass, packed gradients, and what each kind of update makes
// of them.
#include <algorithm>

#include "engine/passes/program_parts.h"
#include "engine/passes/running_statistics.h"
#include "engine/passes/step_groups.h"
#include "engine/passes/update_programs.h"

namespace lockstep::passes {
namespace {

using ir::Op;
using ir::Phase;
using ir::ValueId;

// Returns the gradient of a table that is a few of its rows.
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

class StepBuilder {
 public:
  StepBuilder(const ir::Graph& train, const TrainOptions& options, const StepLayout& layout)
      : train_(train),
        optimizer_(options.optimizer),
        layout_(layout),
        sinks_(sinksOf(train)),
        dtype_(dtypeOf(train, sinks_)),
        program_(formStepGroups(train, sinks_, options.optimizer, layout)),
        rewrite_(train),
        build_{rewrite_.to(), dtype_, Phase::kBackward} {}

  Result<StepProgram> build() {
    LOCKSTEP_TRY(scaleLoss());
    LOCKSTEP_TRY(copyAndPack());
    switch (layout_.update) {
      case UpdateKind::kSynchronous:
        LOCKSTEP_TRY(updateNow());
        break;
      case UpdateKind::kAccumulating:
        LOCKSTEP_TRY(accumulate(0));
        LOCKSTEP_TRY(accumulateStatistics());
        break;
      case UpdateKind::kLocal:
        LOCKSTEP_TRY(updateOwnCopy());
        LOCKSTEP_TRY(accumulate(program_.metricsPack));
        break;
      case UpdateKind::kAsynchronous:
        LOCKSTEP_TRY(emitPushes(build_, program_, values_, optimizer_, layout_));
        break;
    }
    program_.graph = rewrite_.take();
    if (layout_.update == UpdateKind::kAccumulating) {
      LOCKSTEP_ASSIGN(program_.last,
                      updateProgram(train_.name(), dtype_, program_, optimizer_, layout_));
    } else if (layout_.update == UpdateKind::kLocal) {
      LOCKSTEP_ASSIGN(program_.last,
                      averageProgram(train_.name(), dtype_, program_, optimizer_, layout_));
    }
    return std::move(program_);
  }

 private:
  // Loss scaling: the backward pass starts from the scale instead of 1.
  Status scaleLoss() {
    const ir::Node* const start = train_.find(kSeed);
    if (!layout_.scaling || start == nullptr) return {};
    build_.phase = Phase::kForward;
    LOCKSTEP_ASSIGN(values_.scaling, scalingState(build_, *layout_.scaling, layout_.servers > 0));
    build_.phase = start->phase;
    build_.stage = start->stage;
    LOCKSTEP_ASSIGN(seed_, lossSeed(build_, *layout_.scaling, values_.scaling, std::string(kSeed)));
    rewrite_.replace(start->outputs[0], seed_);
    return {};
  }

  // Copies the training graph; a group is packed right after the node that fills its last gradient.
  Status copyAndPack() {
    const std::size_t groups = program_.groups.size();
    const std::size_t packs = std::max(groups, program_.metricsPack + 1);
    std::vector<ir::NodeId> complete(packs, 0);
    const auto await = [&](std::size_t k, ValueId value) {
      complete[k] = std::max(complete[k], train_.value(value).producer);
    };
    for (std::size_t k = 0; k < groups; ++k)
      for (const Group::Member& member : program_.groups[k].members)
        await(k, gradientOf(sinks_, member.name));
    for (const std::string& sum : {std::string("loss"), std::string("weight"), program_.metric})
      if (!sum.empty()) await(program_.metricsPack, sinks_.at(sum));

    values_.packs.assign(packs, -1);
    const auto packComplete = [&](ir::NodeId node) -> Status {
      for (std::size_t k = 0; k < packs; ++k) {
        if (complete[k] != node) continue;
        build_.stage = train_.node(node).stage;
        if (k < groups && program_.groups[k].kind.table > 0)
          LOCKSTEP_TRY(takeRows(k, node));
        else
          LOCKSTEP_TRY(pack(k));
      }
      return {};
    };
    LOCKSTEP_ASSIGN(GroupStates states,
                    copyWithGroups(train_, dtype_, program_, rewrite_, packComplete,
                                   layout_.update == UpdateKind::kAsynchronous));
    values_.parameters = std::move(states.parameters);
    statistics_ = std::move(states.statistics);
    build_.phase = Phase::kBackward;
    return {};
  }

  Status takeRows(std::size_t k, ir::NodeId node) {
    TableRows& table =
        values_.tables.emplace(k, tableRows(train_.node(node), rewrite_)).first->second;
    if (seed_ < 0 || !layout_.compressed) return {};
    LOCKSTEP_ASSIGN(table.rows,
                    unscaled(build_, indexed("rows", k) + ".unscaled", table.rows, seed_));
    return {};
  }

  // Packs the gradients of group k, and the metrics where they ride in it.
  Status pack(std::size_t k) {
    const bool isGroup = k < program_.groups.size();
    std::vector<ValueId> members;
    for (std::size_t m = 0; isGroup && m < program_.groups[k].members.size(); ++m) {
      const Group::Member& member = program_.groups[k].members[m];
      members.push_back(rewrite_(gradientOf(sinks_, member.name)));
      if (member.padding == 0) continue;
      LOCKSTEP_ASSIGN(const ValueId zeros,
                      build_.fill(member.name + ".padding", {member.padding}, 0.0));
      members.push_back(zeros);
    }
    if (k == program_.metricsPack) LOCKSTEP_TRY(addMetricsTo(members));
    const bool scales =
        isGroup && seed_ >= 0 && layout_.compressed && layout_.update != UpdateKind::kAccumulating;
    const std::string name = isGroup ? fmt::format("{}{}", kGroupGradients, k) : "sums";
    LOCKSTEP_ASSIGN(values_.packs[k], build_.add(Op::kFlatten, scales ? name + ".scaled" : name,
                                                 std::move(members), {}));
    if (scales) {
      LOCKSTEP_ASSIGN(values_.packs[k], unscaled(build_, name, values_.packs[k], seed_));
    }
    if (isGroup) program_.gradients.emplace(name, k);
    return {};
  }

  Status addMetricsTo(std::vector<ValueId>& members) {
    std::vector<ValueId> metrics = sumMembers(sinks_, program_.metric, rewrite_);
    members.insert(members.end(), metrics.begin(), metrics.end());
    const bool endsStep =
        layout_.update == UpdateKind::kSynchronous || layout_.update == UpdateKind::kAsynchronous;
    if (!endsStep) return {};  // the program that follows the last micro-batch asks
    LOCKSTEP_ASSIGN(const ValueId stop, stopRequested(build_, layout_.syncAxes));
    members.push_back(stop);
    if (!layout_.onlyTablesOnServers()) return {};
    metrics.push_back(stop);
    LOCKSTEP_ASSIGN(values_.serverMetrics,
                    build_.add(Op::kFlatten, "metrics.servers", std::move(metrics), {}));
    return {};
  }

  // Synchronous: every step updates from gradients summed over ranks.
  Status updateNow() {
    const bool mayBeSkipped = values_.scaling >= 0;
    LOCKSTEP_ASSIGN(const std::vector<ValueId> next, nextStatistics(build_, program_, rewrite_));
    if (!mayBeSkipped) LOCKSTEP_TRY(storeStatistics(build_, program_, next, statistics_, -1));
    LOCKSTEP_ASSIGN(const ValueId divisor,
                    emitUpdates(build_, program_, values_, optimizer_, layout_));
    if (mayBeSkipped) LOCKSTEP_TRY(storeStatistics(build_, program_, next, statistics_, divisor));
    return {};
  }

  // Local SGD: each rank updates its own copy from its own gradients.
  Status updateOwnCopy() {
    LOCKSTEP_ASSIGN(const std::vector<ValueId> next, nextStatistics(build_, program_, rewrite_));
    build_.phase = Phase::kOptimizer;
    std::vector<ValueId> own;
    for (std::size_t k = 0; k < values_.packs.size(); ++k) {
      LOCKSTEP_ASSIGN(const ValueId mine,
                      build_.add(Op::kPartialToLocal, indexed("own", k), {values_.packs[k]}, {}));
      own.push_back(mine);
    }
    LOCKSTEP_ASSIGN(const ValueId norm, build_.slice("own.divisor", own.back(), 1, {1}));
    LOCKSTEP_ASSIGN(const ValueId divisor,
                    emitOptimizer(build_, program_.groups, values_.parameters, own, values_.tables,
                                  norm, optimizer_, layout_, values_.scaling));
    return storeStatistics(build_, program_, next, statistics_,
                           values_.scaling >= 0 ? divisor : -1);
  }

  // Adds the packs from `first` on to the sums of the micro-batches before.
  Status accumulate(std::size_t first) {
    for (std::size_t k = first; k < values_.packs.size(); ++k) {
      const ValueId pack = values_.packs[k];
      const std::string name = k < program_.groups.size() ? indexed("sums", k) : "sums.metrics";
      const std::int64_t count = build_.graph.value(pack).type.count();
      build_.stage = build_.graph.node(build_.graph.value(pack).producer).stage;
      program_.sums.push_back({name, count, build_.stage});
      LOCKSTEP_ASSIGN(const ValueId before, build_.state(name, count));
      LOCKSTEP_ASSIGN(const ValueId after,
                      build_.add(layout_.orderedSums ? Op::kOrderedSum : Op::kAdd, name + ".add",
                                 {before, pack}, {}));
      LOCKSTEP_TRY(build_.store(name, after));
    }
    return {};
  }

  Status accumulateStatistics() {
    build_.phase = Phase::kForward;
    for (std::size_t k = 0; k < program_.statistics.size(); ++k) {
      build_.stage = program_.statistics[k].kind.stage;
      LOCKSTEP_ASSIGN(const ValueId sums, packStatistics(build_, program_, k, rewrite_));
      StepProgram::Sum sum{"sums." + indexed("stats", k), build_.graph.value(sums).type.count(),
                           build_.stage};
      sum.whole = std::any_of(program_.running.begin(), program_.running.end(),
                              [&](const auto& one) { return one.group == k && one.whole; });
      LOCKSTEP_ASSIGN(const ValueId before, build_.state(sum.state, sum.count));
      LOCKSTEP_ASSIGN(const ValueId after,
                      build_.add(Op::kAdd, sum.state + ".add", {before, sums}, {}));
      LOCKSTEP_TRY(build_.store(sum.state, after));
      program_.sums.push_back(std::move(sum));
    }
    return {};
  }

  const ir::Graph& train_;
  const Optimizer& optimizer_;
  const StepLayout& layout_;
  Sinks sinks_;
  DType dtype_;
  StepProgram program_;
  Rewrite rewrite_;
  GraphBuilder build_;
  StepValues values_;
  std::vector<ValueId> statistics_;  // the flat states before the step
  ValueId seed_ = -1;                // the loss scale where the backward pass starts; −1: none
};

}  // namespace

Result<StepProgram> stepProgram(const ir::Graph& train, const TrainOptions& options,
                                const StepLayout& layout) {
  return StepBuilder(train, options, layout).build();
}

}  // namespace lockstep::passes
