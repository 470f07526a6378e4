#include "engine/passes/compress.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "engine/passes/loss_scale.h"
#include "engine/passes/rewrite.h"

namespace lockstep::passes {
namespace {

using ir::Op;
using ir::ValueId;

// Returns the group whose gradients a node sums over the axis, whole or in parts, if it does.
std::optional<std::size_t> groupOf(const ir::Graph& graph, const ir::Node& node,
                                   std::string_view axis, const GradientNodes& gradients) {
  const bool sums = node.op == Op::kAllReduce || node.op == Op::kReduceScatter;
  if (!sums || ir::textAttr(node.attrs, "axis") != axis) return std::nullopt;
  const auto found = gradients.find(graph.node(graph.value(node.inputs[0]).producer).name);
  if (found == gradients.end()) return std::nullopt;
  return found->second;
}

}  // namespace

std::int64_t Compression::kept(std::int64_t count) const {
  if (coding != ir::Coding::kTopK) return 0;
  return std::clamp<std::int64_t>(std::llround(static_cast<double>(count) * keptRatio), 1, count);
}

Result<ir::Graph> compress(const ir::Graph& local, std::string_view axis, int ranks,
                           const GradientNodes& gradients, const Compression& how) {
  Rewrite rewrite(local);
  struct Residual {
    std::string state;
    ValueId after, before;
    int stage;
  };
  std::vector<Residual> judged;  // when it is known whether the step updates
  const ir::Node* const finite = local.find(kFinite);
  for (std::size_t id = 0; id < local.nodes().size(); ++id) {
    const ir::Node& node = local.nodes()[id];
    const std::optional<std::size_t> group = groupOf(local, node, axis, gradients);
    if (!group) {
      LOCKSTEP_TRY(rewrite.copy(static_cast<ir::NodeId>(id)).status());
      continue;
    }
    ir::Graph& graph = rewrite.to();
    const auto add = [&](Op op, std::string name, std::vector<ValueId> inputs,
                         ir::Attrs attrs) -> Result<ir::NodeId> {
      LOCKSTEP_ASSIGN(const ir::NodeId made, graph.add(op, std::move(name), std::move(inputs),
                                                       std::move(attrs), node.phase));
      graph.setStage(made, node.stage);
      return made;
    };
    const ir::TensorType type = local.value(node.inputs[0]).type;
    const ir::TensorType sum = local.value(node.outputs[0]).type;
    const bool inParts = node.op == Op::kReduceScatter;
    const std::string state = fmt::format("{}{}", kResidual, *group);
    const std::string sent = fmt::format("sent.{}", *group);
    const auto typed = [](const ir::TensorType& of) {
      return ir::Attrs{{"dtype", std::string(dtypeName(of.dtype))}, {"shape", of.shape}};
    };
    ir::Attrs coding{{"coding", std::string(ir::codingName(how.coding))}};
    if (const std::int64_t kept = how.kept(sum.count()); kept > 0) coding["kept"] = kept;
    ir::Attrs residual = typed(type), encode = coding, decode = typed(sum);
    residual["state"] = state;
    if (inParts) encode["parts"] = std::int64_t{ranks};
    decode.insert(coding.begin(), coding.end());
    LOCKSTEP_ASSIGN(const ir::NodeId before, add(Op::kState, state, {}, std::move(residual)));
    LOCKSTEP_ASSIGN(
        const ir::NodeId encoded,
        add(Op::kEncode, sent, {rewrite(node.inputs[0]), graph.output(before)}, std::move(encode)));
    if (finite != nullptr) {
      judged.push_back({state, graph.output(encoded), graph.output(before), node.stage});
    } else {
      LOCKSTEP_TRY(
          add(Op::kStore, state + ".store", {graph.output(encoded)}, {{"state", state}}).status());
    }
    const ValueId payload = graph.output(encoded, 1);
    ir::Attrs along{{"axis", std::string(axis)}};
    if (inParts) {
      along["ranks"] = std::int64_t{ranks};
    } else {
      std::vector<std::int64_t> cuts;
      for (int rank = 0; rank <= ranks; ++rank)
        cuts.push_back(rank * graph.value(payload).type.count());
      along["cuts"] = std::move(cuts);
    }
    const Op op = inParts ? Op::kAllToAll : Op::kAllGather;
    LOCKSTEP_ASSIGN(const ir::NodeId there, add(op, fmt::format("{}.{}", sent, ir::info(op).name),
                                                {payload}, std::move(along)));
    LOCKSTEP_ASSIGN(const ir::NodeId made,
                    add(Op::kDecodeSum, sent + ".sum", {graph.output(there)}, std::move(decode)));
    rewrite.replace(node.outputs[0], graph.output(made));
    rewrite.replaceNode(static_cast<ir::NodeId>(id), made);
  }
  for (const Residual& one : judged) {
    GraphBuilder build{rewrite.to(), local.value(finite->outputs[0]).type.dtype,
                       ir::Phase::kOptimizer, one.stage};
    LOCKSTEP_ASSIGN(const ValueId kept,
                    build.add(Op::kSelectIfFinite, one.state + ".kept",
                              {one.after, one.before, rewrite(finite->outputs[0])}, {}));
    LOCKSTEP_TRY(build.store(one.state, kept));
  }
  return rewrite.take();
}

}  // namespace lockstep::passes
