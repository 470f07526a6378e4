#include <algorithm>

#include "engine/ir/ops.h"
#include "engine/passes/rewrite.h"
#include "engine/passes/train_graph.h"

namespace lockstep::passes {
namespace {

using ir::Op;
using ir::ValueId;

class LossDivider {
 public:
  LossDivider(const ir::ModelGraph& model, int ranks)
      : model_(model), ranks_(ranks), rewrite_(model.graph) {}

  Result<ir::ModelGraph> run() {
    const ir::Graph& graph = model_.graph;
    for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
      const ir::Node& node = graph.nodes()[i];
      if (node.op != Op::kSoftmaxXent || !isDivided(node.inputs[0])) {
        LOCKSTEP_TRY(rewrite_.copy(static_cast<ir::NodeId>(i)).status());
        continue;
      }
      const std::vector<ValueId> read = rewrite_.inputs(node);  // logits, label, w
      LOCKSTEP_ASSIGN(const ValueId largest, add(node, Op::kRowMax, ".max", {read[0]}));
      LOCKSTEP_ASSIGN(const ValueId terms,
                      add(node, Op::kXentTerms, ".terms", {read[0], read[1], largest}));
      LOCKSTEP_ASSIGN(const ValueId sum, add(node, Op::kXentLoss, "", {terms, terms + 1, read[2]}));
      rewrite_.replace(node.outputs[0], sum);
    }
    ir::ModelGraph out = model_;
    for (ValueId* value : {&out.loss, &out.weight, &out.metricSums}) {
      if (*value >= 0) *value = rewrite_(*value);
    }
    out.graph = rewrite_.take();
    return out;
  }

 private:
  // Whether it is a product with a parameter that is divided by columns.
  bool isDivided(ValueId logits) const {
    const ir::Node& product = model_.graph.node(model_.graph.value(logits).producer);
    if (product.op != Op::kMatmul) return false;
    const ir::Node& weights = model_.graph.node(model_.graph.value(product.inputs[1]).producer);
    const int columns = ir::intAttr(product.attrs, "tb") != 0 ? 0 : 1;
    return weights.op == Op::kState &&
           std::any_of(model_.parameters.begin(), model_.parameters.end(),
                       [&](const auto& parameter) {
                         return parameter.name == ir::textAttr(weights.attrs, "state") &&
                                parameter.isDivided(ranks_) && parameter.splitDim == columns;
                       });
  }
  Result<ValueId> add(const ir::Node& node, Op op, std::string_view suffix,
                      std::vector<ValueId> inputs) {
    LOCKSTEP_ASSIGN(const ir::NodeId added,
                    rewrite_.to().add(op, fmt::format("{}{}", node.name, suffix), std::move(inputs),
                                      {}, node.phase));
    rewrite_.to().setStage(added, node.stage);
    return rewrite_.to().output(added);
  }

  const ir::ModelGraph& model_;
  const int ranks_;
  Rewrite rewrite_;
};

}  // namespace

Result<ir::ModelGraph> divideLoss(const ir::ModelGraph& model, int ranks) {
  if (ranks == 1) return model;
  return LossDivider(model, ranks).run();
}

}  // namespace lockstep::passes
