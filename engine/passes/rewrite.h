// Rewriting: copies a graph node by node into a new one, some of its values replaced on the way.
#pragma once

#include <vector>

#include "engine/base/status.h"
#include "engine/ir/graph.h"

namespace lockstep::passes {

class Rewrite {
 public:
  explicit Rewrite(const ir::Graph& from)
      : from_(from),
        to_(from.name()),
        values_(from.values().size(), -1),
        nodes_(from.nodes().size(), -1) {}

  // Appends a copy of the node with its operands replaced; its outputs become the copy's.
  // Precondition: its operands have been copied or replaced.
  Result<ir::NodeId> copy(ir::NodeId id);
  // The same with other attributes.
  Result<ir::NodeId> copy(ir::NodeId id, ir::Attrs attrs);
  // And with other operands, which are values of the new graph.
  Result<ir::NodeId> copy(ir::NodeId id, ir::Attrs attrs, std::vector<ir::ValueId> inputs);
  // From here on readers of `old` read `value`.
  void replace(ir::ValueId old, ir::ValueId value) {
    values_[static_cast<std::size_t>(old)] = value;
  }
  // From here on control edges from `old` come from `node`.
  void replaceNode(ir::NodeId old, ir::NodeId node) {
    nodes_[static_cast<std::size_t>(old)] = node;
  }
  // Operands and control edges of an old node in the new graph; edges from nodes that were left out
  // are dropped.
  std::vector<ir::ValueId> inputs(const ir::Node& node) const;
  std::vector<ir::NodeId> after(const ir::Node& node) const;
  ir::ValueId operator()(ir::ValueId old) const { return values_[static_cast<std::size_t>(old)]; }
  ir::Graph& to() { return to_; }
  ir::Graph take() { return std::move(to_); }

 private:
  const ir::Graph& from_;
  ir::Graph to_;
  std::vector<ir::ValueId> values_;
  std::vector<ir::NodeId> nodes_;
};

}  // namespace lockstep::passes
