#include "engine/passes/step_groups.h"

#include <algorithm>
#include <limits>

#include "engine/passes/running_statistics.h"

namespace lockstep::passes {
namespace {

using ir::Op;
using ir::ValueId;

// Groups for each of several servers, where parameters are small enough.
constexpr int kGroupsOfServer = 4;

// Returns whether a parameter's gradient has fewer rows than the parameter and the optimizer
// updates each row by its own gradient alone, rows without a gradient not at all.
bool updatedByRows(const ir::Graph& train, ValueId gradient, const Optimizer& optimizer,
                   const StepLayout& layout, bool rowSharded) {
  const ir::Node& node = train.node(train.value(gradient).producer);
  const bool still =
      optimizer.kind == "adagrad" || (optimizer.kind == "sgd" && optimizer.momentum == 0);
  if (!still || optimizer.weightDecay != 0 || optimizer.clipNorm != 0 ||
      layout.update == UpdateKind::kAccumulating || node.op != Op::kEmbeddingGrad)
    return false;
  return rowSharded ||
         (layout.update != UpdateKind::kLocal && layout.parts == 1 && layout.servers == 0 &&
          train.value(node.inputs[1]).type.count() < train.value(gradient).type.count());
}

// Returns the type to which every reader casts a parameter, if there is one.
std::optional<DType> commonCast(const ir::Graph& train, const std::string& parameter) {
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

std::int64_t bytesOf(const ir::Parameter& parameter, DType dtype) {
  return elementCount(parameter.shape) * static_cast<std::int64_t>(sizeOf(dtype));
}

// Returns the parameters in the order in which the backward pass fills their gradients.
std::vector<ir::Parameter> gradientOrder(const ir::Graph& train, const Sinks& sinks) {
  std::vector<ir::Parameter> order;
  for (const ir::Node& node : train.nodes()) {
    if (node.op != Op::kStore) continue;
    std::string_view name = ir::textAttr(node.attrs, "state");
    if (!name.starts_with(kGradient)) continue;
    name.remove_prefix(kGradient.size());
    order.push_back({std::string(name), train.value(node.inputs[0]).type.shape, "", 0, 0});
  }
  std::stable_sort(order.begin(), order.end(), [&](const auto& a, const auto& b) {
    return train.value(gradientOf(sinks, a.name)).producer <
           train.value(gradientOf(sinks, b.name)).producer;
  });
  return order;
}

// Returns the parameters without a gradient: states that the graph reads and no sink names.
std::vector<ir::Parameter> frozenIn(const ir::Graph& train, const Sinks& sinks) {
  std::vector<ir::Parameter> out;
  for (const ir::Node& node : train.nodes()) {
    if (node.op != Op::kState) continue;
    const std::string name(ir::textAttr(node.attrs, "state"));
    if (!sinks.contains(std::string(kGradient) + name) && !sinks.contains(name))
      out.push_back({name, train.value(node.outputs[0]).type.shape, "", 0, 0});
  }
  return out;
}

// Divides groups among the parameter servers by size: the largest first, each to the server that
// has least. Rows of tables are on their servers already.
void assignServers(std::vector<Group>& groups, int servers) {
  if (servers == 0) return;
  std::vector<std::int64_t> load(static_cast<std::size_t>(servers), 0);
  std::vector<Group*> dense;
  for (Group& group : groups) {
    if (group.kind.rowSharded)
      load[static_cast<std::size_t>(group.kind.stage) - 1] += group.count;
    else
      dense.push_back(&group);
  }
  std::stable_sort(dense.begin(), dense.end(),
                   [](const Group* a, const Group* b) { return a->count > b->count; });
  for (Group* group : dense) {
    const auto least = std::min_element(load.begin(), load.end());
    group->kind.stage = 1 + static_cast<int>(least - load.begin());
    *least += group->count;
  }
  // The metrics go to the first server, so the group they ride in is there: servers swap.
  const auto first = std::find_if(groups.begin(), groups.end(), [](const Group& group) {
    return group.kind.table == 0 && !group.kind.rowSharded;
  });
  if (dense.empty() || first == groups.end()) return;
  const int its = first->kind.stage;
  for (Group* group : dense) {
    if (group->kind.stage == its)
      group->kind.stage = 1;
    else if (group->kind.stage == 1)
      group->kind.stage = its;
  }
}

// Returns the group whose pack the metrics ride in: the first of dense gradients on the stage of
// the loss, or on a server. groups.size() where they have a pack of their own.
std::size_t metricsPackOf(const std::vector<Group>& groups, const StepLayout& layout,
                          int stageOfLoss) {
  if (!layout.metricsInGroup()) return groups.size();
  const auto dense = std::find_if(groups.begin(), groups.end(), [&](const Group& group) {
    return group.kind.table == 0 && !group.kind.rowSharded &&
           (layout.servers > 0 || group.kind.stage == stageOfLoss);
  });
  return static_cast<std::size_t>(dense - groups.begin());
}

}  // namespace

ValueId gradientOf(const Sinks& sinks, const std::string& parameter) {
  return sinks.find(std::string(kGradient) + parameter)->second;
}

StepProgram formStepGroups(const ir::Graph& train, const Sinks& sinks, const Optimizer& optimizer,
                           const StepLayout& layout) {
  const DType dtype = dtypeOf(train, sinks);
  const std::vector<ir::Parameter> order = gradientOrder(train, sinks);
  std::int64_t bucketBytes = layout.bucketBytes;
  if (layout.servers > 1) {
    std::int64_t all = 0;
    for (const ir::Parameter& parameter : order) all += bytesOf(parameter, dtype);
    bucketBytes =
        std::clamp<std::int64_t>(all / (kGroupsOfServer * layout.servers), 1, bucketBytes);
  }
  std::vector<GroupKind> kinds;
  for (const ir::Parameter& parameter : order) {
    const ValueId gradient = gradientOf(sinks, parameter.name);
    GroupKind kind;
    kind.stage = train.node(train.value(gradient).producer).stage;
    kind.noWeightDecay = optimizer.decayMatricesOnly && parameter.shape.size() < 2;
    // Whether norms are needed or not: a sum over ranks may depend on the place in its group.
    kind.divided = layout.divided.contains(parameter.name);
    kind.rowSharded = layout.rowSharded.contains(parameter.name);
    if (updatedByRows(train, gradient, optimizer, layout, kind.rowSharded))
      kind.table = static_cast<int>(kinds.size()) + 1;
    kind.castTo = commonCast(train, parameter.name);
    kind.large = layout.servers > 1 && bytesOf(parameter, dtype) >= bucketBytes;
    kinds.push_back(kind);
  }
  std::vector<ir::Parameter> statistics;
  std::vector<GroupKind> statisticKinds;
  for (const ir::Node& node : train.nodes()) {
    if (node.op != Op::kStore) continue;
    const std::string_view name = ir::textAttr(node.attrs, "state");
    if (name.starts_with(kGradient)) continue;
    statistics.push_back({std::string(name), train.value(node.inputs[0]).type.shape, "", 0, 0});
    statisticKinds.push_back({.stage = node.stage});
  }
  StepProgram program;
  program.scaling = layout.scaling;
  program.metric = metricOf(train);
  if (!program.metric.empty())
    program.metricSums = train.value(sinks.at(program.metric)).type.count();
  program.groups = formGroups(order, dtype, bucketBytes, layout.parts, kinds);
  const std::vector<ir::Parameter> frozen = frozenIn(train, sinks);
  std::vector<GroupKind> frozenKinds;
  for (const ir::Parameter& parameter : frozen)
    frozenKinds.push_back({.stage = train.find(parameter.name)->stage,
                           .divided = layout.divided.contains(parameter.name),
                           .castTo = commonCast(train, parameter.name)});
  program.frozen = formGroups(frozen, dtype, bucketBytes, layout.parts, frozenKinds);
  assignServers(program.groups, layout.servers);
  program.statistics =
      formGroups(statistics, dtype, std::numeric_limits<std::int64_t>::max(), 1, statisticKinds);
  program.running = runningOf(train, program.statistics);
  program.metricsPack = metricsPackOf(program.groups, layout,
                                      train.node(train.value(sinks.at("loss")).producer).stage);
  return program;
}

}  // namespace lockstep::passes
