#include "engine/ir/ops.h"
#include "engine/passes/rewrite.h"
#include "engine/passes/train_graph.h"

namespace lockstep::passes {
namespace {

using ir::Node;
using ir::NodeId;
using ir::Op;

// A product with what follows it, or max-pool's gradient with that of the relu before the pool; -1
// where a part is absent.
struct Chain {
  NodeId product = -1, bias = -1, act = -1;
  NodeId last() const { return act >= 0 ? act : bias >= 0 ? bias : product; }
};

class Fuser {
 public:
  explicit Fuser(const ir::Graph& graph)
      : graph_(graph), uses_(graph.values().size()), pinned_(graph.nodes().size(), false) {
    for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
      for (ir::ValueId input : graph.nodes()[i].inputs)
        uses_[static_cast<std::size_t>(input)].push_back(static_cast<NodeId>(i));
      for (NodeId before : graph.nodes()[i].after) pinned_[static_cast<std::size_t>(before)] = true;
    }
  }

  Chain chainFrom(NodeId product) const {
    Chain chain{product};
    const Node& node = graph_.node(product);
    if (!ir::textAttr(node.attrs, "act").empty()) return chain;
    if (node.op == Op::kMaxPool2dGrad) {
      const NodeId next = onlyUser(product, Op::kReluGrad);
      if (next >= 0 && graph_.node(next).inputs == std::vector{node.outputs[0], node.inputs[0]})
        chain.act = next;
      return chain;
    }
    if (node.inputs.size() == 2) {
      const NodeId next = onlyUser(product, Op::kBiasAdd);
      if (next >= 0 && graph_.node(next).inputs[1] != node.outputs[0]) chain.bias = next;
    }
    chain.act = onlyUser(chain.last(), Op::kRelu);
    return chain;
  }

 private:
  // The one user of the node's output where it is `op` of the same phase and stage and nothing is
  // ordered after the node itself (what comes later would move behind its user); else -1.
  NodeId onlyUser(NodeId id, Op op) const {
    const Node& node = graph_.node(id);
    const auto& users = uses_[static_cast<std::size_t>(node.outputs[0])];
    if (users.size() != 1 || pinned_[static_cast<std::size_t>(id)]) return -1;
    const Node& user = graph_.node(users[0]);
    return user.op == op && user.phase == node.phase && user.stage == node.stage ? users[0] : -1;
  }

  const ir::Graph& graph_;
  std::vector<std::vector<NodeId>> uses_;
  std::vector<bool> pinned_;
};

// The fused node stands where the chain ends: all its operands are there by then.
Status emit(Rewrite& rewrite, const ir::Graph& graph, const Chain& chain) {
  const Node& product = graph.node(chain.product);
  std::vector<ir::ValueId> inputs = rewrite.inputs(product);
  std::vector<NodeId> after = rewrite.after(product);
  ir::Attrs attrs = product.attrs;
  auto join = [&](const Node& node) {
    for (NodeId before : rewrite.after(node)) after.push_back(before);
  };
  if (chain.bias >= 0) {
    inputs.push_back(rewrite(graph.node(chain.bias).inputs[1]));
    join(graph.node(chain.bias));
  }
  if (chain.act >= 0) {
    attrs.insert_or_assign("act", std::string("relu"));
    join(graph.node(chain.act));
  }
  LOCKSTEP_ASSIGN(const NodeId id,
                  rewrite.to().add(product.op, product.name, std::move(inputs), std::move(attrs),
                                   product.phase, std::move(after)));
  rewrite.to().setStage(id, product.stage);
  const ir::ValueId old = graph.node(chain.last()).outputs[0];
  const ir::ValueId output = rewrite.to().output(id);
  rewrite.replaceNode(chain.last(), id);
  rewrite.replace(old, output);
  rewrite.to().value(output).placement = graph.value(old).placement;
  return {};
}

}  // namespace

Result<ir::Graph> fuseEpilogues(const ir::Graph& graph) {
  const Fuser fuser(graph);
  std::vector<bool> absorbed(graph.nodes().size(), false);
  std::vector<Chain> endsAt(graph.nodes().size());
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    const Op op = graph.nodes()[i].op;
    if (op != Op::kMatmul && op != Op::kConv2d && op != Op::kMaxPool2dGrad) continue;
    const Chain chain = fuser.chainFrom(static_cast<NodeId>(i));
    if (chain.last() == chain.product) continue;
    for (NodeId part : {chain.product, chain.bias, chain.act})
      if (part >= 0) absorbed[static_cast<std::size_t>(part)] = true;
    endsAt[static_cast<std::size_t>(chain.last())] = chain;
  }
  Rewrite rewrite(graph);
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    if (endsAt[i].product >= 0)
      LOCKSTEP_TRY(emit(rewrite, graph, endsAt[i]));
    else if (!absorbed[i])
      LOCKSTEP_TRY(rewrite.copy(static_cast<NodeId>(i)).status());
  }
  return rewrite.take();
}

}  // namespace lockstep::passes
