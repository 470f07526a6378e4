#include "engine/ir/ops.h"
#include "engine/passes/rewrite.h"
#include "engine/passes/train_graph.h"

namespace lockstep::passes {

Result<ir::Graph> removeDead(const ir::Graph& graph) {
  std::vector<bool> live(graph.nodes().size(), false);
  for (std::size_t i = graph.nodes().size(); i-- > 0;) {
    const ir::Node& node = graph.nodes()[i];
    live[i] = live[i] || node.outputs.empty();
    if (!live[i]) continue;
    for (ir::ValueId input : node.inputs)
      live[static_cast<std::size_t>(graph.value(input).producer)] = true;
  }
  Rewrite rewrite(graph);
  for (std::size_t i = 0; i < live.size(); ++i)
    if (live[i]) LOCKSTEP_TRY(rewrite.copy(static_cast<ir::NodeId>(i)).status());
  return rewrite.take();
}

}  // namespace lockstep::passes
