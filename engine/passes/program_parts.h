// Parts that the programs of a run share: sinks by name, metrics, flat groups, copies of a graph
// whose states lie in flat groups.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/ir/ops.h"
#include "engine/passes/optimizer_updates.h"
#include "engine/passes/programs.h"
#include "engine/passes/rewrite.h"

namespace lockstep::passes {

// A graph's sinks by name: stored states and results.
using Sinks = std::map<std::string, ir::ValueId, std::less<>>;
Sinks sinksOf(const ir::Graph& graph);
inline bool isSink(const ir::Node& node) {
  return node.op == ir::Op::kStore || node.op == ir::Op::kResult;
}
DType dtypeOf(const ir::Graph& graph, const Sinks& sinks);

// Appends the results "loss" and "weight", and that of the model's metric if it has one.
Status addResults(GraphBuilder& build, const ir::ModelGraph& model);
// Returns the name of the metric among a graph's results; "" if it has none.
std::string metricOf(const ir::Graph& graph);
// Returns the members of the result "metrics" except the last, the stop request.
std::vector<ir::ValueId> sumMembers(const Sinks& sinks, const std::string& metric,
                                    const Rewrite& values);
// Appends the result "metrics" or "metrics.<metric>".
Status addMetrics(GraphBuilder& build, const std::string& metric, ir::ValueId sums,
                  const std::string& node = "metrics");
// Appends the number of ranks that were asked to stop, summed over `syncAxes`. The input is copied
// because an input may not lie in a group.
Result<ir::ValueId> stopRequested(GraphBuilder& build, const std::vector<std::string>& syncAxes);

// Appends gradients divided by the loss scale.
Result<ir::ValueId> unscaled(GraphBuilder& build, const std::string& name, ir::ValueId gradients,
                             ir::ValueId seed);
// Stores zeros in the states that accumulate over micro-batches.
Status storeZeros(GraphBuilder& build, const StepProgram& step);

// Lays out the members of a group one after another, padding included. `valueOf` maps a
// Group::Member to Result<ValueId>.
template <typename Value>
Result<ir::ValueId> packGroup(GraphBuilder& build, const std::string& name, const Group& group,
                              Value valueOf) {
  std::vector<ir::ValueId> members;
  for (const Group::Member& member : group.members) {
    LOCKSTEP_ASSIGN(const ir::ValueId value, valueOf(member));
    members.push_back(value);
    if (member.padding == 0) continue;
    LOCKSTEP_ASSIGN(const ir::ValueId zeros,
                    build.fill(member.name + ".padding", {member.padding}, 0.0));
    members.push_back(zeros);
  }
  return build.add(ir::Op::kFlatten, name, std::move(members), {});
}

// The flat states that a copied graph reads, by index of the group.
struct GroupStates {
  std::vector<ir::ValueId> parameters, statistics;
};
// Copies `from` without its sinks, its running statistics and what `rewrite` has replaced already.
// Its states become views of the groups' states. `copied` is called after each node with its id.
// With `snapshot` the graph reads copies of the groups' states, except rows of sharded tables.
Result<GroupStates> copyWithGroups(const ir::Graph& from, DType dtype, const StepProgram& program,
                                   Rewrite& rewrite,
                                   const std::function<Status(ir::NodeId)>& copied,
                                   bool snapshot = false);

}  // namespace lockstep::passes
