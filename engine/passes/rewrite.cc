#include "engine/passes/rewrite.h"

namespace lockstep::passes {

Result<ir::NodeId> Rewrite::copy(ir::NodeId id) { return copy(id, from_.node(id).attrs); }

Result<ir::NodeId> Rewrite::copy(ir::NodeId id, ir::Attrs attrs) {
  const ir::Node& node = from_.node(id);
  std::vector<ir::ValueId> inputs;
  for (const ir::ValueId input : node.inputs) inputs.push_back((*this)(input));
  std::vector<ir::NodeId> after;
  for (const ir::NodeId before : node.after) {
    const ir::NodeId copied = nodes_[static_cast<std::size_t>(before)];
    if (copied >= 0) after.push_back(copied);
  }
  LOCKSTEP_ASSIGN(const ir::NodeId added, to_.add(node.op, node.name, std::move(inputs),
                                                  std::move(attrs), node.phase, std::move(after)));
  nodes_[static_cast<std::size_t>(id)] = added;
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    const ir::ValueId output = to_.output(added, static_cast<int>(i));
    to_.value(output).placement = from_.value(node.outputs[i]).placement;
    replace(node.outputs[i], output);
  }
  return added;
}

}  // namespace lockstep::passes
