// Op table rows: elementwise ops.
#include "engine/ir/ops_rules.h"

namespace lockstep::ir::rules {
namespace {

Inferred inferCast(Types inputs, const Attrs& attrs) {
  const DType dtype = dtypeAttr(attrs);
  if (!isFloat(dtype))
    return invalidArgument("dtype is {}, expected a float type", dtypeName(dtype));
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

// Rounding to fewer bits is not linear: partial sums are reduced first.
Placing placeCast(const Node& node, Places inputs, Types inputTypes, Types outputs) {
  const bool narrows = sizeOf(outputs[0].dtype) < sizeOf(inputTypes[0].dtype);
  return (narrows ? placeElementwise : placeLinear)(node, inputs, inputTypes, outputs);
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

// The gradient is an op of dy and y, or of dy and x.
template <Op op, bool ofOutput>
Grads gradActivation(GradBuilder& build, const Node& node, std::span<const ValueId> dy) {
  const ValueId at = ofOutput ? node.outputs[0] : node.inputs[0];
  LOCKSTEP_ASSIGN(ValueId dx, build.emit(op, "x", {dy[0], at}, {}));
  return std::vector<ValueId>{dx};
}

Inferred inferDropout(Types inputs, const Attrs& attrs) {
  LOCKSTEP_TRY(wantFloat(inputs, 0));
  LOCKSTEP_TRY(wantRank(inputs, 1, 1, "one dimension, a key for each sample"));
  LOCKSTEP_TRY(wantType(inputs, 1, {DType::kI32, inputs[1].shape}));
  const Shape& x = inputs[0].shape;
  if (x.empty() || x[0] % inputs[1].shape[0] != 0)
    return wrongInput(inputs, 1, "as many keys as divide the first dimension of input 0");
  const double rate = floatAttr(attrs, "rate");
  if (!(rate >= 0 && rate < 1))
    return invalidArgument("rate is {}, expected from 0 to less than 1", rate);
  LOCKSTEP_TRY(wantAxis(attrs));
  const std::int64_t first = intAttr(attrs, "first"), columns = intAttr(attrs, "columns", x.back());
  if (first < 0 || first > columns - x.back())
    return invalidArgument("{} columns from {} are no part of {}", x.back(), first, columns);
  return std::vector<TensorType>{inputs[0]};
}

Grads gradDropout(GradBuilder& build, const Node& node, std::span<const ValueId> dy) {
  LOCKSTEP_ASSIGN(ValueId dx, build.emit(Op::kDropout, "x", {dy[0], node.inputs[1]}, node.attrs));
  return std::vector<ValueId>{dx, -1};
}

// Samples and keys are split alike; or the last dimension is split and keys are replicated.
Placing placeDropout(const Node&, Places inputs, Types inputTypes, Types) {
  const AxisPlacement &x = inputs[0], &key = inputs[1];
  const Shape& shape = inputTypes[0].shape;
  const std::int64_t each = shape[0] / inputTypes[1].shape[0];
  if (isSplit(key)) {
    AxisPlacement rows = key;
    for (std::int64_t& cut : rows.cuts) cut *= each;
    if (x == rows) return placedAt({x});
    return mustBe(0, rows);
  }
  if (!isReplicated(key)) return mustReplicate(1);
  const bool columns = shape.size() > 1 && isSplit(x, static_cast<int>(shape.size()) - 1);
  if (isReplicated(x) || isSum(x) || columns) return placedAt({x});
  if (!isSplit(x, 0)) return mustReplicate(0);
  AxisPlacement keys = x;
  for (std::int64_t& cut : keys.cuts) {
    if (cut % each != 0) return mustReplicate(0);
    cut /= each;
  }
  return mustBe(1, keys);
}

// Linear in dy (input 0) if the other input is replicated.
Placing placeLinearInFirst(const Node& node, Places inputs, Types inputTypes, Types outputs) {
  if (isSum(inputs[0]) && isReplicated(inputs[1])) return placedAt({partialSum()});
  return placeElementwise(node, inputs, inputTypes, outputs);
}

Placing placePartialToLocal(const Node& node, Places inputs, Types inputTypes, Types outputs) {
  if (isSum(inputs[0])) return placedAt({AxisPlacement{}});
  return placeElementwise(node, inputs, inputTypes, outputs);
}

Inferred inferScaleByRatio(Types inputs, const Attrs&) {
  LOCKSTEP_TRY(wantFloat(inputs, 0));
  for (std::size_t i = 1; i < 3; ++i)
    LOCKSTEP_TRY(wantType(inputs, i, TensorType{inputs[0].dtype, {1}}));
  return std::vector<TensorType>{inputs[0]};
}
Placing placeScaleByRatio(const Node& node, Places inputs, Types inputTypes, Types outputs) {
  if (!isReplicated(inputs[2])) return mustReplicate(2);
  if (isReplicated(inputs[0]) && isSum(inputs[1])) return placedAt({partialSum()});
  if (!isReplicated(inputs[1])) return mustReplicate(1);
  if (isSum(inputs[0])) return placedAt({partialSum()});
  return placeElementwise(node, inputs.first(1), inputTypes, outputs);
}

Inferred inferSelectIfFinite(Types inputs, const Attrs&) {
  LOCKSTEP_TRY(wantFloat(inputs, 0));
  LOCKSTEP_TRY(wantType(inputs, 1, inputs[0]));
  LOCKSTEP_TRY(wantType(inputs, 2, TensorType{inputs[0].dtype, {1}}));
  return std::vector<TensorType>{inputs[0]};
}
Placing placeSelectIfFinite(const Node& node, Places inputs, Types inputTypes, Types outputs) {
  if (!isReplicated(inputs[2])) return mustReplicate(2);
  return placeElementwise(node, inputs.first(2), inputTypes, outputs);
}

Inferred inferOrderedSum(Types inputs, const Attrs&) {
  LOCKSTEP_TRY(wantFloat(inputs, 0));
  LOCKSTEP_TRY(wantRank(inputs, 0, 1, "one dimension"));
  const std::int64_t count = inputs[0].count(), all = inputs[1].count();
  LOCKSTEP_TRY(
      wantType(inputs, 1, TensorType{inputs[0].dtype, {std::max(count, all / count * count)}}));
  return std::vector<TensorType>{inputs[0]};
}
Placing placeOrderedSum(const Node&, Places inputs, Types, Types) {
  if (!isReplicated(inputs[0])) return mustReplicate(0);
  if (!isReplicated(inputs[1]) && !isSum(inputs[1])) return mustReplicate(1);
  return placedAt({AxisPlacement{}});
}

OpCost costTranscendental(const Node&, Types inputs, Types outputs) {
  return {20.0 * static_cast<double>(inputs[0].count()), movedBytes(inputs, outputs)};
}

}  // namespace

std::vector<OpInfo> elementwiseOps() {
  // clang-format off
  return {
      {.op = Op::kCast, .name = "cast", .minInputs = 1, .maxInputs = 1,
       .attrs = {{"dtype", AttrKind::kDType}, {"scale", AttrKind::kNumber}}, .infer = inferCast,
       .gradient = gradCast, .place = placeCast, .cost = costElementwise},
      {.op = Op::kAdd, .name = "add", .minInputs = 2, .maxInputs = 2, .inPlace = {0},
       .infer = inferSame, .gradient = gradAdd, .place = placeLinear, .cost = costElementwise,
       .narrowInputs = 0b11, .narrowOutput = true, .stored = OpInfo::Stored::kAsInputs,
       .costlyToRecompute = true, .movesOnly = true},
      {.op = Op::kScale, .name = "scale", .minInputs = 1, .maxInputs = 1,
       .attrs = {{"factor", AttrKind::kNumber}}, .inPlace = {0}, .infer = inferSame,
       .gradient = gradScale, .place = placeLinear, .cost = costElementwise},
      {.op = Op::kDropout, .name = "dropout", .minInputs = 2, .maxInputs = 2,
       .attrs = {{"salt", AttrKind::kInt}, {"rate", AttrKind::kNumber},
                 {"columns", AttrKind::kInt, false}, {"first", AttrKind::kInt, false},
                 {"axis", AttrKind::kText, false}, {"stride", AttrKind::kInt, false}},
       .inPlace = {0}, .infer = inferDropout, .gradient = gradDropout, .place = placeDropout,
       .cost = costTranscendental,
       .partOffset = {PartOffset::Unit::kColumns, -1, PartOffset::kLastDim}},
      {.op = Op::kPartialToLocal, .name = "partial-to-local", .minInputs = 1, .maxInputs = 1,
       .inPlace = {0}, .infer = inferSame, .place = placePartialToLocal, .cost = costMove},
      {.op = Op::kScaleByRatio, .name = "scale-by-ratio", .minInputs = 3, .maxInputs = 3,
       .inPlace = {0}, .infer = inferScaleByRatio, .place = placeScaleByRatio,
       .cost = costElementwise},
      {.op = Op::kSelectIfFinite, .name = "select-if-finite", .minInputs = 3, .maxInputs = 3,
       .inPlace = {1}, .infer = inferSelectIfFinite, .place = placeSelectIfFinite,
       .cost = costMove},
      {.op = Op::kOrderedSum, .name = "ordered-sum", .minInputs = 2, .maxInputs = 2, .inPlace = {0},
       .infer = inferOrderedSum, .place = placeOrderedSum, .cost = costElementwise},
      {.op = Op::kRelu, .name = "relu", .minInputs = 1, .maxInputs = 1, .inPlace = {0},
       .infer = inferSame, .gradient = gradActivation<Op::kReluGrad, true>,
       .place = placeElementwise, .cost = costElementwise, .narrowOutput = true,
       .stored = OpInfo::Stored::kNarrow},
      {.op = Op::kReluGrad, .name = "relu-grad", .minInputs = 2, .maxInputs = 2, .inPlace = {0},
       .infer = inferSame, .place = placeLinearInFirst, .cost = costElementwise,
       .narrowInputs = 0b11, .narrowOutput = true, .stored = OpInfo::Stored::kNarrow},
      {.op = Op::kGelu, .name = "gelu", .minInputs = 1, .maxInputs = 1, .inPlace = {0},
       .infer = inferSame, .gradient = gradActivation<Op::kGeluGrad, false>,
       .place = placeElementwise, .cost = costTranscendental, .narrowInputs = 0b1,
       .narrowOutput = true, .stored = OpInfo::Stored::kNarrow},
      {.op = Op::kGeluGrad, .name = "gelu-grad", .minInputs = 2, .maxInputs = 2, .inPlace = {0},
       .infer = inferSame, .place = placeLinearInFirst, .cost = costTranscendental,
       .narrowInputs = 0b11, .narrowOutput = true, .stored = OpInfo::Stored::kNarrow},
      {.op = Op::kTanh, .name = "tanh", .minInputs = 1, .maxInputs = 1, .inPlace = {0},
       .infer = inferSame, .gradient = gradActivation<Op::kTanhGrad, true>,
       .place = placeElementwise, .cost = costTranscendental, .narrowInputs = 0b1,
       .narrowOutput = true, .stored = OpInfo::Stored::kNarrow},
      {.op = Op::kTanhGrad, .name = "tanh-grad", .minInputs = 2, .maxInputs = 2, .inPlace = {0},
       .infer = inferSame, .place = placeLinearInFirst, .cost = costElementwise,
       .narrowInputs = 0b11, .narrowOutput = true, .stored = OpInfo::Stored::kNarrow},
  };
  // clang-format on
}

}  // namespace lockstep::ir::rules
