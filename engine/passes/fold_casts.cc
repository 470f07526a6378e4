#include <vector>

#include "engine/ir/ops.h"
#include "engine/passes/rewrite.h"
#include "engine/passes/train_graph.h"

namespace lockstep::passes {
namespace {

using ir::Node;
using ir::NodeId;
using ir::Op;
using ir::ValueId;

// For each node the cast that it takes over; -1: none.
std::vector<NodeId> foldedCasts(const ir::Graph& graph) {
  std::vector<int> readers(graph.values().size(), 0);
  for (const Node& node : graph.nodes())
    for (const ValueId input : node.inputs) ++readers[static_cast<std::size_t>(input)];
  std::vector<NodeId> folded(graph.nodes().size(), -1);
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& cast = graph.nodes()[i];
    if (cast.op != Op::kCast || !cast.after.empty() || ir::floatAttr(cast.attrs, "scale") != 1 ||
        !ir::isNarrow(graph.value(cast.outputs[0]).type.dtype))
      continue;
    const ir::Value& wide = graph.value(cast.inputs[0]);
    const Node& maker = graph.node(wide.producer);
    if (ir::info(maker.op).narrowOutput && wide.index == 0 && wide.type.dtype == DType::kF32 &&
        readers[static_cast<std::size_t>(cast.inputs[0])] == 1 && maker.stage == cast.stage)
      folded[static_cast<std::size_t>(wide.producer)] = static_cast<NodeId>(i);
  }
  return folded;
}

}  // namespace

Result<ir::Graph> foldCasts(const ir::Graph& graph) {
  const std::vector<NodeId> folded = foldedCasts(graph);
  std::vector<bool> gone(graph.nodes().size(), false);
  Rewrite rewrite(graph);
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    if (gone[i]) continue;
    const Node& node = graph.nodes()[i];
    ir::Attrs attrs = node.attrs;
    const NodeId cast = folded[i];
    if (cast >= 0) {
      const ValueId narrow = graph.node(cast).outputs[0];
      attrs.insert_or_assign(std::string(ir::kStored),
                             std::string(dtypeName(graph.value(narrow).type.dtype)));
    }
    LOCKSTEP_ASSIGN(const NodeId made, rewrite.copy(static_cast<NodeId>(i), std::move(attrs)));
    if (cast < 0) continue;
    gone[static_cast<std::size_t>(cast)] = true;
    rewrite.replaceNode(cast, made);
    rewrite.replace(graph.node(cast).outputs[0], rewrite.to().output(made));
  }
  return rewrite.take();
}

}  // namespace lockstep::passes
