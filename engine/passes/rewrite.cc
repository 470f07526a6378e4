#include "engine/passes/rewrite.h"

namespace lockstep::passes {

std::vector<ir::ValueId> Rewrite::inputs(const ir::Node& node) const {
  std::vector<ir::ValueId> mapped;
  for (const ir::ValueId input : node.inputs) mapped.push_back((*this)(input));
  return mapped;
}

std::vector<ir::NodeId> Rewrite::after(const ir::Node& node) const {
  std::vector<ir::NodeId> mapped;
  for (const ir::NodeId before : node.after)
    if (const ir::NodeId copied = nodes_[static_cast<std::size_t>(before)]; copied >= 0)
      mapped.push_back(copied);
  return mapped;
}

Result<ir::NodeId> Rewrite::copy(ir::NodeId id) { return copy(id, from_.node(id).attrs); }

Result<ir::NodeId> Rewrite::copy(ir::NodeId id, ir::Attrs attrs) {
  return copy(id, std::move(attrs), inputs(from_.node(id)));
}

Result<ir::NodeId> Rewrite::copy(ir::NodeId id, ir::Attrs attrs, std::vector<ir::ValueId> inputs) {
  const ir::Node& node = from_.node(id);
  LOCKSTEP_ASSIGN(const ir::NodeId added, to_.add(node.op, node.name, std::move(inputs),
                                                  std::move(attrs), node.phase, after(node)));
  to_.setStage(added, node.stage);
  replaceNode(id, added);
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    const ir::ValueId output = to_.output(added, static_cast<int>(i));
    to_.value(output).placement = from_.value(node.outputs[i]).placement;
    replace(node.outputs[i], output);
  }
  return added;
}

}  // namespace lockstep::passes
