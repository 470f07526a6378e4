// Op table rows: optimizers, elementwise over parameters, gradients and moments.
#include "engine/ir/ops_rules.h"

namespace lockstep::ir::rules {
namespace {

// The first `tensors` inputs have one type, the others are f[1] of the same dtype. One output for
// each tensor except the gradient.
Inferred inferOptimizer(Types inputs, std::size_t tensors) {
  LOCKSTEP_TRY(wantFloat(inputs, 0));
  for (std::size_t i = 1; i < inputs.size(); ++i)
    LOCKSTEP_TRY(wantType(inputs, i, i < tensors ? inputs[0] : TensorType{inputs[0].dtype, {1}}));
  return std::vector<TensorType>(tensors - 1, inputs[0]);
}
Inferred inferSgd(Types inputs, const Attrs&) { return inferOptimizer(inputs, 3); }
Inferred inferAdagrad(Types inputs, const Attrs&) { return inferOptimizer(inputs, 3); }
Inferred inferAdam(Types inputs, const Attrs&) { return inferOptimizer(inputs, 4); }

// (p, state, sums, ids, norm, lr)
Inferred inferByRows(Types inputs, const Attrs& attrs) {
  LOCKSTEP_TRY(wantFloat(inputs, 0));
  LOCKSTEP_TRY(wantRank(inputs, 0, 1, "one dimension, a flat group"));
  LOCKSTEP_TRY(wantType(inputs, 1, inputs[0]));
  LOCKSTEP_TRY(wantRank(inputs, 3, 1, "one dimension, ids"));
  LOCKSTEP_TRY(wantType(inputs, 3, {DType::kI32, inputs[3].shape}));
  LOCKSTEP_TRY(wantType(inputs, 2, {inputs[0].dtype, {inputs[2].count()}}));
  if (inputs[2].count() % inputs[3].shape[0] != 0)
    return wrongInput(inputs, 2, fmt::format("{} rows", inputs[3].shape[0]));
  for (std::size_t i = 4; i < 6; ++i) LOCKSTEP_TRY(wantType(inputs, i, {inputs[0].dtype, {1}}));
  if (const std::int64_t first = intAttr(attrs, "first"); first < 0)
    return invalidArgument("first is {}, expected an element", first);
  LOCKSTEP_TRY(wantAxis(attrs));
  return std::vector<TensorType>(2, inputs[0]);
}

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

Placing placeByRows(const Node&, Places inputs, Types, Types outputs) {
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (!isReplicated(inputs[i])) return mustReplicate(i);
  return placedAt(std::vector<AxisPlacement>(outputs.size()));
}

// Touched rows are read and written, in parameter and state.
OpCost costByRows(const Node&, Types inputs, Types) {
  return {8.0 * static_cast<double>(inputs[2].count()), 5 * inputs[2].bytes() + inputs[3].bytes()};
}
OpCost costAdagrad(const Node&, Types inputs, Types outputs) {
  return {8.0 * static_cast<double>(inputs[0].count()), movedBytes(inputs, outputs)};
}
OpCost costSgd(const Node&, Types inputs, Types outputs) {
  return {7.0 * static_cast<double>(inputs[0].count()), movedBytes(inputs, outputs)};
}
OpCost costAdam(const Node&, Types inputs, Types outputs) {
  return {16.0 * static_cast<double>(inputs[0].count()), movedBytes(inputs, outputs)};
}

}  // namespace

std::vector<OpInfo> optimizerOps() {
  // clang-format off
  return {
      {.op = Op::kSgd, .name = "sgd", .minInputs = 5, .maxInputs = 5, .outputs = 2,
       .attrs = {{"momentum", AttrKind::kNumber}, {"weight_decay", AttrKind::kNumber}},
       .inPlace = {0, 2}, .infer = inferSgd, .place = placeSgd, .cost = costSgd},
      {.op = Op::kAdagrad, .name = "adagrad", .minInputs = 5, .maxInputs = 5, .outputs = 2,
       .attrs = {{"eps", AttrKind::kNumber}, {"weight_decay", AttrKind::kNumber}},
       .inPlace = {0, 2}, .infer = inferAdagrad, .place = placeSgd, .cost = costAdagrad},
      {.op = Op::kAdagradRows, .name = "adagrad-rows", .minInputs = 6, .maxInputs = 6, .outputs = 2,
       .attrs = {{"eps", AttrKind::kNumber}, {"first", AttrKind::kInt, false},
                 {"axis", AttrKind::kText, false}, {"stride", AttrKind::kInt, false}},
       .inPlace = {0, 1}, .infer = inferByRows, .place = placeByRows, .cost = costByRows},
      {.op = Op::kSgdRows, .name = "sgd-rows", .minInputs = 6, .maxInputs = 6, .outputs = 2,
       .attrs = {{"first", AttrKind::kInt, false}, {"axis", AttrKind::kText, false},
                 {"stride", AttrKind::kInt, false}}, .inPlace = {0, 1}, .infer = inferByRows,
       .place = placeByRows, .cost = costByRows},
      {.op = Op::kAdam, .name = "adam", .minInputs = 7, .maxInputs = 7, .outputs = 3,
       .attrs = {{"beta1", AttrKind::kNumber}, {"beta2", AttrKind::kNumber},
                 {"eps", AttrKind::kNumber}, {"weight_decay", AttrKind::kNumber}},
       .inPlace = {0, 2, 3}, .infer = inferAdam, .place = placeAdam, .cost = costAdam},
  };
  // clang-format on
}

}  // namespace lockstep::ir::rules
