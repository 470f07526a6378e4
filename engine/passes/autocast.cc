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

// Batches are dimension 0: a product with the left operand transposed sums over samples, as that of
// a gradient of weights does. Those are summed over ranks and micro-batches, and stay f32.
bool sumsSamples(const ir::Node& node) {
  return node.op == Op::kMatmul && ir::intAttr(node.attrs, "ta") != 0;
}

// The values that are stored in the operands' type: made by an op that autocast stores so, and read
// only by ops that can read that.
std::vector<bool> narrowValues(const ir::Graph& graph) {
  std::vector<int> readers(graph.values().size(), 0), narrow(graph.values().size(), 0);
  for (std::size_t id = graph.nodes().size(); id-- > 0;) {
    const ir::Node& node = graph.nodes()[id];
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const auto input = static_cast<std::size_t>(node.inputs[i]);
      const auto viewed = [&] {
        const auto view = static_cast<std::size_t>(node.outputs[0]);
        return readers[view] > 0 && narrow[view] == readers[view];
      };
      ++readers[input];
      if (static_cast<int>(i) < ir::info(node.op).matmulOperands || ir::readsNarrow(node.op, i) ||
          (node.op == Op::kReshape && viewed()))
        ++narrow[input];
    }
  }
  std::vector<bool> stored(graph.values().size(), false);
  for (const ir::Node& node : graph.nodes()) {
    if (node.outputs.empty()) continue;
    const auto value = static_cast<std::size_t>(node.outputs[0]);
    const ir::OpInfo::Stored how = ir::info(node.op).stored;
    const bool makes =
        how == ir::OpInfo::Stored::kNarrow
            ? !sumsSamples(node)
            : how == ir::OpInfo::Stored::kAsInputs &&
                  std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) {
                    return stored[static_cast<std::size_t>(input)];
                  });
    stored[value] = makes && graph.value(node.outputs[0]).type.dtype == DType::kF32 &&
                    readers[value] > 0 && narrow[value] == readers[value];
    if (node.op == Op::kReshape) stored[value] = stored[static_cast<std::size_t>(node.inputs[0])];
  }
  return stored;
}

}  // namespace

Result<ir::Graph> autocast(const ir::Graph& graph, DType operandDtype, bool storesNarrow) {
  const std::vector<bool> stored =
      storesNarrow ? narrowValues(graph) : std::vector<bool>(graph.values().size(), false);
  Rewrite rewrite(graph);
  std::vector<ValueId> casts(graph.values().size(), -1);
  const auto cast = [&](ValueId value) -> Result<ValueId> {
    ValueId& known = casts[static_cast<std::size_t>(value)];
    if (known >= 0) return known;
    if (rewrite.to().value(rewrite(value)).type.dtype == operandDtype) return rewrite(value);
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
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const bool isOperand = static_cast<int>(i) < ir::info(node.op).matmulOperands;
      if (!isOperand && !stored[static_cast<std::size_t>(node.inputs[i])]) continue;
      LOCKSTEP_ASSIGN(inputs[i], cast(node.inputs[i]));
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
