#include <algorithm>
#include <array>

#include "engine/ir/ops.h"
#include "engine/passes/rewrite.h"
#include "engine/passes/train_graph.h"

namespace lockstep::passes {
namespace {

using ir::Op;
using ir::ValueId;

bool isAttention(Op op) { return op == Op::kAttention || op == Op::kAttentionGrad; }

std::string nameOf(const ir::Node& maker, int output, DType type) {
  return output == 0 ? fmt::format("{}.{}", maker.name, dtypeName(type))
                     : fmt::format("{}.{}.{}", maker.name, output, dtypeName(type));
}

}  // namespace

Result<ir::Graph> autocast(const ir::Graph& graph, DType operandDtype) {
  Rewrite rewrite(graph);
  std::vector<ValueId> casts(graph.values().size(), -1);
  const auto cast = [&](ValueId value) -> Result<ValueId> {
    ValueId& known = casts[static_cast<std::size_t>(value)];
    if (known >= 0) return known;
    const ir::Node& maker = graph.node(graph.value(value).producer);
    LOCKSTEP_ASSIGN(
        const ir::NodeId node,
        rewrite.to().add(
            Op::kCast, nameOf(maker, graph.value(value).index, operandDtype), {rewrite(value)},
            {{"dtype", std::string(dtypeName(operandDtype))}, {"scale", 1.0}}, maker.phase));
    rewrite.to().setStage(node, maker.stage);
    known = rewrite.to().output(node, 0);
    return known;
  };
  for (std::size_t id = 0; id < graph.nodes().size(); ++id) {
    const ir::Node& node = graph.nodes()[id];
    std::vector<ValueId> inputs = rewrite.inputs(node);
    for (int i = 0; i < ir::info(node.op).matmulOperands; ++i) {
      LOCKSTEP_ASSIGN(inputs[static_cast<std::size_t>(i)],
                      cast(node.inputs[static_cast<std::size_t>(i)]));
    }
    ir::Attrs attrs = node.attrs;
    if (isAttention(node.op)) attrs["operand_dtype"] = std::string(dtypeName(operandDtype));
    LOCKSTEP_TRY(
        rewrite.copy(static_cast<ir::NodeId>(id), std::move(attrs), std::move(inputs)).status());
  }
  return rewrite.take();
}

Result<ir::Graph> allowTf32(const ir::Graph& graph) {
  Rewrite rewrite(graph);
  for (std::size_t id = 0; id < graph.nodes().size(); ++id) {
    const ir::Node& node = graph.nodes()[id];
    ir::Attrs attrs = node.attrs;
    if (ir::info(node.op).matmulOperands > 0) attrs["tf32"] = std::int64_t{1};
    LOCKSTEP_TRY(
        rewrite.copy(static_cast<ir::NodeId>(id), std::move(attrs), rewrite.inputs(node)).status());
  }
  return rewrite.take();
}

}  // namespace lockstep::passes
