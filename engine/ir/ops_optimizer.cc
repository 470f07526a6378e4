// Rows: optimizers, elementwise over parameters, gradients and moments.
#include "engine/ir/ops_rules.h"

namespace lockstep::ir::rules {
namespace {

// The first `tensors` inputs have one type; the rest are f[1] of the same dtype. One output for
// each tensor but the gradient.
Inferred inferOptimizer(Types inputs, std::size_t tensors) {
  LOCKSTEP_TRY(wantFloat(inputs, 0));
  for (std::size_t i = 1; i < inputs.size(); ++i)
    LOCKSTEP_TRY(wantType(inputs, i, i < tensors ? inputs[0] : TensorType{inputs[0].dtype, {1}}));
  return std::vector<TensorType>(tensors - 1, inputs[0]);
}
Inferred inferSgd(Types inputs, const Attrs&) { return inferOptimizer(inputs, 3); }
Inferred inferAdam(Types inputs, const Attrs&) { return inferOptimizer(inputs, 4); }

Placing placeOptimizer(const Node& node, Places inputs, Types outputs, std::size_t tensors) {
  for (std::size_t i = tensors; i < inputs.size(); ++i)
    if (!isReplicated(inputs[i])) return mustReplicate(i);
  return placeElementwise(node, inputs.first(tensors), {}, outputs);
}
Placing placeSgd(const Node& node, Places inputs, Types, Types outputs) {
  return placeOptimizer(node, inputs, outputs, 3);
}
Placing placeAdam(const Node& node, Places inputs, Types, Types outputs) {
  return placeOptimizer(node, inputs, outputs, 4);
}

OpCost costSgd(const Node&, Types inputs, Types outputs) {
  return {7.0 * static_cast<double>(inputs[0].count()), movedBytes(inputs, outputs)};
}
OpCost costAdam(const Node&, Types inputs, Types outputs) {
  return {16.0 * static_cast<double>(inputs[0].count()), movedBytes(inputs, outputs)};
}

}  // namespace

std::vector<OpInfo> optimizerOps() {
  return {
      {.op = Op::kSgd, .name = "sgd", .minInputs = 5, .maxInputs = 5, .outputs = 2,
       .isView = false, .isCollective = false,
       .attrs = {{"momentum", AttrKind::kNumber}, {"weight_decay", AttrKind::kNumber}},
       .inPlace = {0, 2}, .infer = inferSgd, .gradient = nullptr, .place = placeSgd,
       .cost = costSgd},
      {.op = Op::kAdam, .name = "adam", .minInputs = 7, .maxInputs = 7, .outputs = 3,
       .isView = false, .isCollective = false,
       .attrs = {{"beta1", AttrKind::kNumber}, {"beta2", AttrKind::kNumber},
                 {"eps", AttrKind::kNumber}, {"weight_decay", AttrKind::kNumber}},
       .inPlace = {0, 2, 3}, .infer = inferAdam, .gradient = nullptr, .place = placeAdam,
       .cost = costAdam},
  };
}

}  // namespace lockstep::ir::rules
