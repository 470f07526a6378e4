#include "engine/passes/order_sums.h"

#include "engine/ir/ops.h"
#include "engine/passes/rewrite.h"

namespace lockstep::passes {

Result<ir::Graph> orderSums(const ir::Graph& local, std::string_view axis, int ranks) {
  Rewrite rewrite(local);
  for (std::size_t id = 0; id < local.nodes().size(); ++id) {
    const ir::Node& node = local.nodes()[id];
    if (node.op != ir::Op::kOrderedSum) {
      LOCKSTEP_TRY(rewrite.copy(static_cast<ir::NodeId>(id)).status());
      continue;
    }
    const std::int64_t count = local.value(node.inputs[1]).type.count();
    std::vector<std::int64_t> cuts;
    for (int rank = 0; rank <= ranks; ++rank) cuts.push_back(rank * count);
    LOCKSTEP_ASSIGN(
        const ir::NodeId gathered,
        rewrite.to().add(ir::Op::kAllGather, node.name + ".gather", {rewrite(node.inputs[1])},
                         {{"axis", std::string(axis)}, {"cuts", cuts}}, node.phase));
    rewrite.to().setStage(gathered, node.stage);
    LOCKSTEP_TRY(rewrite
                     .copy(static_cast<ir::NodeId>(id), node.attrs,
                           {rewrite(node.inputs[0]), rewrite.to().output(gathered)})
                     .status());
  }
  return rewrite.take();
}

}  // namespace lockstep::passes
