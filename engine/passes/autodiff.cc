// Reverse-mode differentiation over the graph (Griewank and Walther: "Evaluating Derivatives",
// chapter 3): nodes are visited backwards from the loss, each op's gradient rule turns the
// gradients of its outputs into those of its inputs.
#include <algorithm>
#include <utility>

#include "engine/ir/ops.h"
#include "engine/passes/train_graph.h"

namespace lockstep::passes {
namespace {

using ir::Node;
using ir::NodeId;
using ir::Op;
using ir::ValueId;

class Differentiator final : public ir::GradBuilder {
 public:
  explicit Differentiator(const ir::Graph& forward)
      : graph_(forward),
        forwardNodes_(forward.nodes().size()),
        wanted_(forward.values().size(), false),
        grads_(forward.values().size(), -1) {}

  Result<Differentiated> run(ValueId loss, const std::vector<std::string>& states) {
    if (loss < 0 || static_cast<std::size_t>(loss) >= wanted_.size())
      return invalidArgument("autodiff: value %{} is not in graph {}", loss, graph_.name());
    LOCKSTEP_ASSIGN(const std::vector<ValueId> targets, findStates(states));
    markWanted(targets);
    LOCKSTEP_TRY(seed(loss));
    for (std::size_t i = forwardNodes_; i-- > 0;) LOCKSTEP_TRY(visit(static_cast<NodeId>(i)));

    Differentiated out;
    for (std::size_t i = 0; i < targets.size(); ++i) {
      const ValueId grad = grads_[static_cast<std::size_t>(targets[i])];
      if (grad < 0)
        return invalidArgument("autodiff: the loss of graph {} does not depend on state {}",
                               graph_.name(), states[i]);
      out.gradients.push_back(grad);
    }
    out.graph = std::move(graph_);
    return out;
  }

  Result<ValueId> emit(Op op, std::string_view suffix, std::vector<ValueId> inputs, ir::Attrs attrs,
                       ValueId beside) override {
    const int stage = std::exchange(stage_, beside >= 0 ? producer(beside).stage : stage_);
    auto made =
        append(op, fmt::format("{}.grad.{}", owner_, suffix), std::move(inputs), std::move(attrs));
    stage_ = stage;
    return made;
  }
  const ir::TensorType& type(ValueId value) const override { return graph_.value(value).type; }
  bool wants(ValueId value) const override { return wanted_[static_cast<std::size_t>(value)]; }

 private:
  Result<std::vector<ValueId>> findStates(const std::vector<std::string>& states) const {
    std::vector<ValueId> found;
    for (const std::string& state : states) {
      const auto it =
          std::find_if(graph_.nodes().begin(), graph_.nodes().end(), [&](const Node& n) {
            return n.op == Op::kState && ir::textAttr(n.attrs, "state") == state;
          });
      if (it == graph_.nodes().end())
        return invalidArgument("autodiff: graph {} reads no state {}", graph_.name(), state);
      found.push_back(it->outputs[0]);
    }
    return found;
  }

  // A value's gradient is wanted where it depends on one of the states.
  void markWanted(const std::vector<ValueId>& targets) {
    for (ValueId target : targets) wanted_[static_cast<std::size_t>(target)] = true;
    for (std::size_t i = 0; i < forwardNodes_; ++i) {
      const Node& node = graph_.nodes()[i];
      if (std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId v) { return wants(v); }))
        for (ValueId output : node.outputs) wanted_[static_cast<std::size_t>(output)] = true;
    }
  }

  Status seed(ValueId loss) {
    const ir::TensorType lossType = type(loss);
    stage_ = producer(loss).stage;
    if (!isFloat(lossType.dtype) || lossType.count() != 1)
      return invalidArgument("autodiff: the loss is {}, expected one float", lossType.text());
    LOCKSTEP_ASSIGN(grads_[static_cast<std::size_t>(loss)],
                    append(Op::kFill, std::string(kSeed), {},
                           {{"dtype", std::string(dtypeName(lossType.dtype))},
                            {"shape", lossType.shape},
                            {"value", 1.0}}));
    return {};
  }

  Status visit(NodeId id) {
    const Node node = graph_.node(id);  // a copy: the graph grows underneath
    std::vector<ValueId> outputGrads;
    for (ValueId output : node.outputs)
      outputGrads.push_back(grads_[static_cast<std::size_t>(output)]);
    const bool reaches =
        std::any_of(outputGrads.begin(), outputGrads.end(), [](ValueId grad) { return grad >= 0; });
    const bool wanted = std::any_of(node.inputs.begin(), node.inputs.end(),
                                    [&](ValueId input) { return wants(input); });
    if (!reaches || !wanted) return {};
    const ir::OpInfo& row = ir::info(node.op);
    if (row.gradient == nullptr)
      return invalidArgument(
          "autodiff: {} ({}) lies between the loss and a state and cannot be "
          "differentiated",
          node.name, row.name);
    owner_ = node.name;
    stage_ = node.stage;
    LOCKSTEP_ASSIGN(const std::vector<ValueId> inputGrads, row.gradient(*this, node, outputGrads));
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      if (inputGrads[i] >= 0 && wants(node.inputs[i]))
        LOCKSTEP_TRY(accumulate(node.inputs[i], inputGrads[i]));
    return {};
  }

  Status accumulate(ValueId value, ValueId grad) {
    ValueId& sum = grads_[static_cast<std::size_t>(value)];
    if (sum < 0) {
      sum = grad;
      return {};
    }
    const std::string name = producer(value).name + ".grad.sum";
    stage_ = producer(value).stage;
    LOCKSTEP_ASSIGN(sum, append(Op::kAdd, name, {sum, grad}, {}));
    return {};
  }

  Result<ValueId> append(Op op, const std::string& name, std::vector<ValueId> inputs,
                         ir::Attrs attrs) {
    std::string unique = name;
    for (int i = 2; graph_.find(unique) != nullptr; ++i) unique = fmt::format("{}{}", name, i);
    LOCKSTEP_ASSIGN(const NodeId id, graph_.add(op, std::move(unique), std::move(inputs),
                                                std::move(attrs), ir::Phase::kBackward));
    graph_.setStage(id, stage_);
    return graph_.output(id);
  }
  const Node& producer(ValueId value) const { return graph_.node(graph_.value(value).producer); }

  ir::Graph graph_;
  std::size_t forwardNodes_;
  std::vector<bool> wanted_;    // of forward values
  std::vector<ValueId> grads_;  // of forward values; -1 none so far
  std::string owner_;           // the node whose rule runs
  int stage_ = 0;               // of what is appended
};

}  // namespace

Result<Differentiated> autodiff(const ir::Graph& forward, ValueId loss,
                                const std::vector<std::string>& states) {
  return Differentiator(forward).run(loss, states);
}

}  // namespace lockstep::passes
