#include "engine/planner/state_layout.h"

#include <algorithm>
#include <utility>

#include "engine/base/hash.h"
#include "engine/cluster/cuts.h"
#include "engine/passes/loss_scale.h"

namespace lockstep::planner {

using cluster::kDataAxis, cluster::kModelAxis, cluster::Strategy;
using Kind = ir::AxisPlacement::Kind;

namespace {

// Says what a group holds and where, so that the residuals of a checkpoint are taken for the same
// gradients alone.
std::string contentsOf(const passes::Group& group) {
  std::string all = fmt::format("{}", group.count);
  for (const passes::Group::Member& member : group.members)
    all += fmt::format(" {}@{}", member.name, member.element);
  return fmt::format("group.{:016x}", stableHash(all));
}

}  // namespace

void StateLayout::addSlot(plan::StateSlot slot) {
  std::int64_t& bytes = bytes_[static_cast<std::size_t>(slot.stage)];
  slot.offset = bytes;
  bytes += plan::Plan::copyBytes(slot) * slot.copies;
  plan_.state.push_back(std::move(slot));
}

std::int64_t StateLayout::peakBytes() const {
  return *std::max_element(bytes_.begin(), bytes_.end());
}

Status StateLayout::add(const passes::StepProgram& step, const passes::Sources& splits,
                        const std::map<std::string, ir::Parameter::PartOf, std::less<>>& parts) {
  LOCKSTEP_ASSIGN(const std::vector<std::string> optimizer,
                  passes::optimizerStates(context_.request.training.optimizer));
  const Strategy& strategy = context_.strategy;
  const auto parameters = plan::StateRole::kParameters;
  addGroups(parameters, "params", strategy.splitParameters, step.groups, splits, parts);
  addGroups(parameters, "params", strategy.splitParameters, step.frozen, splits, parts,
            step.groups.size());
  for (const std::string& kind : optimizer)
    addGroups(plan::StateRole::kOptimizer, kind, strategy.splitOptimizer, step.groups, splits,
              parts);
  for (std::size_t k = 0; k < step.statistics.size(); ++k)
    addSlot(slotOf(plan::StateRole::kStatistics, fmt::format("stats.{}", k), step.statistics[k]));
  if (step.scaling)
    addSlot(slotOf(plan::StateRole::kLossScale, std::string(passes::kScaling),
                   passes::scalingGroup(*step.scaling)));
  if (context_.compression) addResiduals(step);
  addSums(step);
  return {};
}

plan::StateSlot StateLayout::slotOf(plan::StateRole role, std::string name,
                                    const passes::Group& group) const {
  plan::StateSlot slot;
  slot.role = role;
  slot.name = std::move(name);
  slot.stage = group.kind.stage;
  slot.type = {context_.request.step.compute, {group.count}};
  for (const passes::Group::Member& member : group.members)
    slot.members.push_back({.name = member.name, .shape = member.shape, .element = member.element});
  return slot;
}

void StateLayout::addGroups(plan::StateRole role, const std::string& kind, bool split,
                            const std::vector<passes::Group>& groups, const passes::Sources& splits,
                            const std::map<std::string, ir::Parameter::PartOf, std::less<>>& parts,
                            std::size_t first) {
  const int ranks = context_.ranks();
  for (std::size_t k = 0; k < groups.size(); ++k) {
    plan::StateSlot slot = slotOf(role, fmt::format("{}.{}", kind, first + k), groups[k]);
    if (split && ranks > 1) {
      slot.axis = kDataAxis;
      slot.type.shape = {groups[k].count / ranks};
    }
    for (plan::StateSlot::Member& member : slot.members) {
      const std::string parameter = member.name;
      if (const auto part = parts.find(parameter); part != parts.end()) {
        member.name = part->second.whole;
        member.firstRow = part->second.first;
        member.rows = std::exchange(member.shape[0], part->second.rows);
      }
      if (const auto found = splits.find(parameter); found != splits.end()) {
        member.axis = kModelAxis;
        member.dim = found->second.dim;
        member.shape[static_cast<std::size_t>(member.dim)] = found->second.cuts.back();
      }
    }
    addSlot(std::move(slot));
  }
}

// Error feedback: what compression left out of each rank's gradients.
void StateLayout::addResiduals(const passes::StepProgram& step) {
  const int modelRanks = context_.modelRanks();
  for (std::size_t k = 0; k < step.groups.size(); ++k) {
    const passes::Group& group = step.groups[k];
    if (group.kind.table > 0) continue;  // rows are exchanged exactly
    plan::StateSlot slot =
        slotOf(plan::StateRole::kResidual, fmt::format("{}{}", passes::kResidual, k), group);
    slot.axis = kDataAxis;
    plan::StateSlot::Member all{.name = contentsOf(group),
                                .shape = {group.count * context_.ranks() * modelRanks}};
    if (modelRanks > 1) all.axis = kModelAxis;
    slot.members = {std::move(all)};
    addSlot(std::move(slot));
  }
}

// Sums of micro-batches: each rank's own, or its part of all ranks'. They have no members: between
// steps they are zero, and no checkpoint holds them.
void StateLayout::addSums(const passes::StepProgram& step) {
  const int ranks = context_.ranks();
  for (std::size_t k = 0; k < step.sums.size(); ++k) {
    plan::StateSlot slot;
    slot.role = plan::StateRole::kGradientSum;
    slot.name = step.sums[k].state;
    slot.stage = step.sums[k].stage;
    if (step.sums[k].whole) wholeSums_.insert(slot.name);
    const bool split = ranks > 1 && context_.strategy.splitGradients && k < step.groups.size();
    if (split) slot.axis = kDataAxis;
    slot.type = {context_.request.step.compute,
                 {split ? step.sums[k].count / ranks : step.sums[k].count}};
    addSlot(std::move(slot));
  }
}

// A stop request is a rank's own; the sum over ranks counts them.
passes::Sources StateLayout::sources() const {
  passes::Sources sources;
  sources["stop"] = sources[std::string(passes::kLocalShare)] = {Kind::kPartialSum, 0, {}};
  for (const plan::StateSlot& slot : plan_.state) {
    const bool isSum = slot.role == plan::StateRole::kGradientSum;
    if (slot.role == plan::StateRole::kResidual || wholeSums_.contains(slot.name)) continue;
    if (!slot.axis.empty()) {
      const ir::AxisPlacement parts{Kind::kSplit, 0,
                                    cluster::evenCuts(plan_.groupCount(slot), context_.ranks())};
      sources[slot.name] = parts;
      if (isSum) sources[slot.name + ".zero"] = parts;
      continue;
    }
    const bool ofServer = context_.servers() > 0 && slot.stage > 0;
    if (isSum && !ofServer && !context_.request.inOrder)
      sources[slot.name] = sources[slot.name + ".zero"] = {Kind::kPartialSum, 0, {}};
  }
  return sources;
}

void StateLayout::splitGradients(const passes::StepProgram& step, passes::Sources& sources) const {
  const bool optimizerIsSplit =
      std::any_of(plan_.state.begin(), plan_.state.end(), [](const plan::StateSlot& slot) {
        return slot.role == plan::StateRole::kOptimizer && !slot.axis.empty();
      });
  if (!optimizerIsSplit) return;
  for (const auto& [node, group] : step.gradients)
    sources[node] = {Kind::kSplit, 0,
                     cluster::evenCuts(step.groups[group].count, context_.ranks())};
}

void StateLayout::splitInputs(const ir::Graph& model, const std::vector<std::int64_t>& cuts,
                              passes::Sources& sources) {
  for (const ir::Node& node : model.nodes())
    if (node.op == ir::Op::kInput) sources[node.name] = {Kind::kSplit, 0, cuts};
}

}  // namespace lockstep::planner
