// Rows: elementwise ops.
#include "engine/ir/ops_rules.h"

namespace lockstep::ir::rules {
namespace {

Inferred inferCast(Types inputs, const Attrs& attrs) {
  const DType dtype = dtypeAttr(attrs);
  if (!isFloat(dtype)) return invalidArgument("dtype is {}, expected a float type", dtypeName(dtype));
  return std::vector<TensorType>{{dtype, inputs[0].shape}};
}

Grads gradCast(GradBuilder& build, const Node& node, std::span<const ValueId> dy) {
  const DType from = build.type(node.inputs[0]).dtype;
  if (!isFloat(from)) return std::vector<ValueId>{-1};
  LOCKSTEP_ASSIGN(ValueId dx, build.emit(Op::kCast, "x", {dy[0]},
                                         {{"dtype", std::string(dtypeName(from))},
                                          {"scale", floatAttr(node.attrs, "scale")}}));
  return std::vector<ValueId>{dx};
}

Grads gradAdd(GradBuilder& build, const Node& node, std::span<const ValueId> dy) {
  std::vector<ValueId> grads;
  for (ValueId input : node.inputs) grads.push_back(build.wants(input) ? dy[0] : -1);
  return grads;
}

Grads gradScale(GradBuilder& build, const Node& node, std::span<const ValueId> dy) {
  LOCKSTEP_ASSIGN(ValueId dx, build.emit(Op::kScale, "x", {dy[0]}, node.attrs));
  return std::vector<ValueId>{dx};
}

Grads gradRelu(GradBuilder& build, const Node& node, std::span<const ValueId> dy) {
  LOCKSTEP_ASSIGN(ValueId dx, build.emit(Op::kReluGrad, "x", {dy[0], node.outputs[0]}, {}));
  return std::vector<ValueId>{dx};
}

Grads gradGelu(GradBuilder& build, const Node& node, std::span<const ValueId> dy) {
  LOCKSTEP_ASSIGN(ValueId dx, build.emit(Op::kGeluGrad, "x", {dy[0], node.inputs[0]}, {}));
  return std::vector<ValueId>{dx};
}

Grads gradTanh(GradBuilder& build, const Node& node, std::span<const ValueId> dy) {
  LOCKSTEP_ASSIGN(ValueId dx, build.emit(Op::kTanhGrad, "x", {dy[0], node.outputs[0]}, {}));
  return std::vector<ValueId>{dx};
}

// Linear in dy (input 0) where the other input is whole.
Placing placeLinearInFirst(const Node& node, Places inputs, Types inputTypes, Types outputs) {
  if (isSum(inputs[0]) && isReplicated(inputs[1])) return placedAt({partialSum()});
  return placeElementwise(node, inputs, inputTypes, outputs);
}

OpCost costTranscendental(const Node&, Types inputs, Types outputs) {
  return {20.0 * static_cast<double>(inputs[0].count()), movedBytes(inputs, outputs)};
}

}  // namespace

std::vector<OpInfo> elementwiseOps() {
  return {
      {.op = Op::kCast, .name = "cast", .minInputs = 1, .maxInputs = 1, .outputs = 1,
       .isView = false, .isCollective = false,
       .attrs = {{"dtype", AttrKind::kDType}, {"scale", AttrKind::kNumber}}, .inPlace = {-1},
       .infer = inferCast, .gradient = gradCast, .place = placeLinear, .cost = costElementwise},
      {.op = Op::kAdd, .name = "add", .minInputs = 2, .maxInputs = 2, .outputs = 1,
       .isView = false, .isCollective = false, .attrs = {}, .inPlace = {0}, .infer = inferSame,
       .gradient = gradAdd, .place = placeLinear, .cost = costElementwise},
      {.op = Op::kScale, .name = "scale", .minInputs = 1, .maxInputs = 1, .outputs = 1,
       .isView = false, .isCollective = false, .attrs = {{"factor", AttrKind::kNumber}},
       .inPlace = {0}, .infer = inferSame, .gradient = gradScale, .place = placeLinear,
       .cost = costElementwise},
      {.op = Op::kRelu, .name = "relu", .minInputs = 1, .maxInputs = 1, .outputs = 1,
       .isView = false, .isCollective = false, .attrs = {}, .inPlace = {0}, .infer = inferSame,
       .gradient = gradRelu, .place = placeElementwise, .cost = costElementwise},
      {.op = Op::kReluGrad, .name = "relu-grad", .minInputs = 2, .maxInputs = 2, .outputs = 1,
       .isView = false, .isCollective = false, .attrs = {}, .inPlace = {0}, .infer = inferSame,
       .gradient = nullptr, .place = placeLinearInFirst, .cost = costElementwise},
      {.op = Op::kGelu, .name = "gelu", .minInputs = 1, .maxInputs = 1, .outputs = 1,
       .isView = false, .isCollective = false, .attrs = {}, .inPlace = {0}, .infer = inferSame,
       .gradient = gradGelu, .place = placeElementwise, .cost = costTranscendental},
      {.op = Op::kGeluGrad, .name = "gelu-grad", .minInputs = 2, .maxInputs = 2, .outputs = 1,
       .isView = false, .isCollective = false, .attrs = {}, .inPlace = {0}, .infer = inferSame,
       .gradient = nullptr, .place = placeLinearInFirst, .cost = costTranscendental},
      {.op = Op::kTanh, .name = "tanh", .minInputs = 1, .maxInputs = 1, .outputs = 1,
       .isView = false, .isCollective = false, .attrs = {}, .inPlace = {0}, .infer = inferSame,
       .gradient = gradTanh, .place = placeElementwise, .cost = costTranscendental},
      {.op = Op::kTanhGrad, .name = "tanh-grad", .minInputs = 2, .maxInputs = 2, .outputs = 1,
       .isView = false, .isCollective = false, .attrs = {}, .inPlace = {0}, .infer = inferSame,
       .gradient = nullptr, .place = placeLinearInFirst, .cost = costElementwise},
  };
}

}  // namespace lockstep::ir::rules
