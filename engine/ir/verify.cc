#include <map>
#include <set>

#include "engine/ir/graph.h"
#include "engine/ir/ops.h"

namespace lockstep::ir {
namespace {

Error broken(const Node& node, Message why) {
  return invalidArgument("node {} ({}): {}", node.name, info(node.op).name, why);
}

Status verifyPlacement(const Node& node, const Value& value) {
  if (!value.placement) return {};
  for (const auto& [axis, placement] : value.placement->axes) {
    if (placement.kind == AxisPlacement::Kind::kReplicated)
      return broken(node, message("axis {} is written as replicated; expected it left out", axis));
    if (placement.kind != AxisPlacement::Kind::kSplit) continue;
    const auto dim = static_cast<std::size_t>(placement.dim);
    if (placement.dim < 0 || dim >= value.type.shape.size())
      return broken(node,
                    message("split along dimension {} of {}", placement.dim, value.type.text()));
    const auto& cuts = placement.cuts;
    bool ascending = cuts.size() >= 2 && cuts.front() == 0 && cuts.back() == value.type.shape[dim];
    for (std::size_t i = 1; ascending && i < cuts.size(); ++i) ascending = cuts[i - 1] <= cuts[i];
    if (!ascending)
      return broken(node, message("cut-points of axis {} are not ascending from 0 to {}", axis,
                                  value.type.shape[dim]));
  }
  return {};
}

// Checks that states, inputs and results are read once, written once, and have one type.
class Names {
 public:
  Status check(const Graph& graph, const Node& node) {
    switch (node.op) {
      case Op::kInput:
        return once(inputs_, node, "name", "input");
      case Op::kResult:
        return once(results_[node.stage], node, "name", "result");
      case Op::kState:
        LOCKSTEP_TRY(once(reads_, node, "state", "state"));
        return sameType(node, graph.value(node.outputs[0]).type);
      case Op::kStore:
        LOCKSTEP_TRY(once(writes_, node, "state", "store of state"));
        return sameType(node, graph.value(node.inputs[0]).type);
      default:
        return {};
    }
  }

 private:
  static Status once(std::set<std::string, std::less<>>& seen, const Node& node,
                     std::string_view key, std::string_view what) {
    const std::string_view name = textAttr(node.attrs, key);
    if (!seen.emplace(name).second)
      return broken(node, message("{} {} is there twice", what, name));
    return {};
  }
  Status sameType(const Node& node, const TensorType& type) {
    const std::string_view name = textAttr(node.attrs, "state");
    const auto [it, added] = types_.emplace(std::string(name), type);
    if (!added && it->second != type)
      return broken(node, message("state {} is {} here and {} elsewhere", name, type.text(),
                                  it->second.text()));
    return {};
  }

  std::set<std::string, std::less<>> inputs_, reads_, writes_;
  std::map<int, std::set<std::string, std::less<>>> results_;  // by stage
  std::map<std::string, TensorType, std::less<>> types_;
};

}  // namespace

Status verify(const Graph& graph) {
  // add() checks names, order, attributes and types: rebuilds the graph and compares.
  Graph again(graph.name());
  Names names;
  for (const Node& node : graph.nodes()) {
    const auto known = static_cast<ValueId>(again.values().size());
    for (std::size_t i = 0; i < node.outputs.size(); ++i)
      if (node.outputs[i] != known + static_cast<ValueId>(i) ||
          static_cast<std::size_t>(node.outputs[i]) >= graph.values().size())
        return broken(node, "its values are not numbered in order");
    LOCKSTEP_ASSIGN(const NodeId id,
                    again.add(node.op, node.name, node.inputs, node.attrs, node.phase, node.after));
    const Node& built = again.node(id);
    if (built.outputs != node.outputs) return broken(node, "it has another number of outputs");
    if (built.after != node.after) return broken(node, "its control edges are not in order");
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      const Value& value = graph.value(node.outputs[i]);
      if (value.producer != id || value.index != static_cast<int>(i))
        return broken(node, message("output {} names another producer", i));
      const TensorType& expected = again.value(built.outputs[i]).type;
      if (value.type != expected)
        return broken(
            node, message("output {} is {}, expected {}", i, value.type.text(), expected.text()));
      LOCKSTEP_TRY(verifyPlacement(node, value));
    }
    LOCKSTEP_TRY(names.check(graph, node));
  }
  if (again.values().size() != graph.values().size())
    return invalidArgument("graph {} has values that no node produces", graph.name());
  return {};
}

}  // namespace lockstep::ir
