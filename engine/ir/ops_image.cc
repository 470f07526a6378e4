// Op table rows: images, NHWC; convolution weights HWIO.
#include "engine/ir/ops_rules.h"

namespace lockstep::ir::rules {
namespace {

constexpr std::string_view kImage = "four dimensions, NHWC";
constexpr std::string_view kFilter = "four dimensions, HWIO";

Status wantConvolution(const Attrs& attrs) {
  const std::int64_t stride = intAttr(attrs, "stride"), pad = intAttr(attrs, "pad");
  if (stride < 1 || stride > kMaxCount)
    return invalidArgument("stride is {}, expected at least 1", stride);
  if (pad < 0 || pad > kMaxCount) return invalidArgument("pad is {}, expected at least 0", pad);
  if (const std::int64_t tf32 = intAttr(attrs, "tf32"); tf32 != 0 && tf32 != 1)
    return invalidArgument("tf32 is {}, expected 0 or 1", tf32);
  return {};
}

// Returns the type of y for x and w, with the dtype of x, or what is wrong with x or w.
Result<TensorType> convolved(const TensorType& x, const TensorType& w, const Attrs& attrs) {
  LOCKSTEP_TRY(wantConvolution(attrs));
  const std::int64_t stride = intAttr(attrs, "stride"), pad = intAttr(attrs, "pad");
  TensorType y{x.dtype, {x.shape[0], 0, 0, w.shape[3]}};
  for (std::size_t i = 0; i < 2; ++i) {
    const std::int64_t room = x.shape[1 + i] + 2 * pad - w.shape[i];
    if (room < 0)
      return invalidArgument("the kernel, {} long, does not fit in the input's {} with padding {}",
                             w.shape[i], x.shape[1 + i], pad);
    y.shape[1 + i] = room / stride + 1;
  }
  if (x.shape[3] != w.shape[2])
    return invalidArgument("the weights take {} channels, the input has {}", w.shape[2],
                           x.shape[3]);
  return y;
}

Inferred inferConv2d(Types inputs, const Attrs& attrs) {
  LOCKSTEP_TRY(wantFloat(inputs, 0));
  LOCKSTEP_TRY(wantRank(inputs, 0, 4, kImage));
  LOCKSTEP_TRY(wantRank(inputs, 1, 4, kFilter));
  LOCKSTEP_TRY(wantActivation(attrs));
  LOCKSTEP_TRY(wantType(inputs, 1, {inputs[0].dtype, inputs[1].shape}));
  LOCKSTEP_ASSIGN(TensorType y, convolved(inputs[0], inputs[1], attrs));
  y.dtype = summedIn(y.dtype);
  if (inputs.size() == 3) LOCKSTEP_TRY(wantType(inputs, 2, {y.dtype, {y.shape[3]}}));
  return std::vector<TensorType>{std::move(y)};
}

Inferred inferConv2dInputGrad(Types inputs, const Attrs& attrs) {
  LOCKSTEP_TRY(wantFloat(inputs, 0));
  LOCKSTEP_TRY(wantRank(inputs, 0, 4, kImage));
  LOCKSTEP_TRY(wantRank(inputs, 1, 4, kFilter));
  TensorType dx{inputs[0].dtype, shapeAttr(attrs)};
  if (dx.shape.size() != 4)
    return invalidArgument("shape is [{}], expected {}", shapeText(dx.shape), kImage);
  LOCKSTEP_TRY(wantType(inputs, 1, {inputs[0].dtype, inputs[1].shape}));
  LOCKSTEP_ASSIGN(const TensorType y, convolved(dx, inputs[1], attrs));
  LOCKSTEP_TRY(wantType(inputs, 0, y));
  dx.dtype = summedIn(dx.dtype);
  return std::vector<TensorType>{std::move(dx)};
}

Inferred inferConv2dWeightGrad(Types inputs, const Attrs& attrs) {
  LOCKSTEP_TRY(wantFloat(inputs, 0));
  LOCKSTEP_TRY(wantRank(inputs, 0, 4, kImage));
  LOCKSTEP_TRY(wantRank(inputs, 1, 4, kImage));
  TensorType dw{inputs[0].dtype, shapeAttr(attrs)};
  if (dw.shape.size() != 4)
    return invalidArgument("shape is [{}], expected {}", shapeText(dw.shape), kFilter);
  LOCKSTEP_ASSIGN(const TensorType y, convolved(inputs[0], dw, attrs));
  LOCKSTEP_TRY(wantType(inputs, 1, y));
  dw.dtype = summedIn(dw.dtype);
  return std::vector<TensorType>{std::move(dw)};
}

Result<TensorType> pooled(const TensorType& x, const Attrs& attrs) {
  const std::int64_t size = intAttr(attrs, "size"), stride = intAttr(attrs, "stride");
  if (size < 1) return invalidArgument("size is {}, expected at least 1", size);
  if (stride < 1) return invalidArgument("stride is {}, expected at least 1", stride);
  TensorType y = x;
  for (std::size_t i = 1; i < 3; ++i) {
    if (x.shape[i] < size)
      return invalidArgument("the window, {} long, does not fit in the input's {}", size,
                             x.shape[i]);
    y.shape[i] = (x.shape[i] - size) / stride + 1;
  }
  return y;
}

Inferred inferMaxPool2d(Types inputs, const Attrs& attrs) {
  LOCKSTEP_TRY(wantFloat(inputs, 0));
  LOCKSTEP_TRY(wantRank(inputs, 0, 4, kImage));
  LOCKSTEP_ASSIGN(TensorType y, pooled(inputs[0], attrs));
  return std::vector<TensorType>{std::move(y)};
}

Inferred inferMaxPool2dGrad(Types inputs, const Attrs& attrs) {
  LOCKSTEP_TRY(wantFloat(inputs, 0));
  LOCKSTEP_TRY(wantRank(inputs, 0, 4, kImage));
  LOCKSTEP_TRY(wantActivation(attrs));
  LOCKSTEP_ASSIGN(const TensorType y, pooled(inputs[0], attrs));
  LOCKSTEP_TRY(wantType(inputs, 1, y));
  LOCKSTEP_TRY(wantType(inputs, 2, y));
  return std::vector<TensorType>{inputs[0]};
}

Inferred inferMeanPool2d(Types inputs, const Attrs&) {
  LOCKSTEP_TRY(wantFloat(inputs, 0));
  LOCKSTEP_TRY(wantRank(inputs, 0, 4, kImage));
  const Shape& x = inputs[0].shape;
  return std::vector<TensorType>{{inputs[0].dtype, {x[0], x[3]}}};
}

Inferred inferMeanPool2dGrad(Types inputs, const Attrs& attrs) {
  LOCKSTEP_TRY(wantFloat(inputs, 0));
  Shape dx = shapeAttr(attrs);
  if (dx.size() != 4 || inputs[0].shape != Shape{dx[0], dx[3]})
    return wrongInput(inputs, 0, fmt::format("samples and channels of [{}]", shapeText(dx)));
  return std::vector<TensorType>{{inputs[0].dtype, std::move(dx)}};
}

Grads gradConv2d(GradBuilder& build, const Node& node, std::span<const ValueId> outputGrads) {
  LOCKSTEP_ASSIGN(const ValueId dy, throughActivation(build, node, outputGrads[0]));
  const ValueId x = node.inputs[0], w = node.inputs[1];
  const std::int64_t stride = intAttr(node.attrs, "stride"), pad = intAttr(node.attrs, "pad");
  auto attrs = [&](ValueId of) {
    return Attrs{{"stride", stride}, {"pad", pad}, {"shape", build.type(of).shape}};
  };
  std::vector<ValueId> grads(node.inputs.size(), -1);
  if (build.wants(w)) {
    LOCKSTEP_ASSIGN(grads[1], build.emit(Op::kConv2dWeightGrad, "w", {x, dy}, attrs(w)));
  }
  if (node.inputs.size() == 3 && build.wants(node.inputs[2])) {
    LOCKSTEP_ASSIGN(grads[2], build.emit(Op::kReduceRows, "b", {dy}, {}));
  }
  if (build.wants(x)) {
    LOCKSTEP_ASSIGN(grads[0], build.emit(Op::kConv2dInputGrad, "x", {dy, w}, attrs(x)));
  }
  return grads;
}

Grads gradMaxPool2d(GradBuilder& build, const Node& node, std::span<const ValueId> dy) {
  LOCKSTEP_ASSIGN(ValueId dx, build.emit(Op::kMaxPool2dGrad, "x",
                                         {node.inputs[0], node.outputs[0], dy[0]}, node.attrs));
  return std::vector<ValueId>{dx};
}

Grads gradMeanPool2d(GradBuilder& build, const Node& node, std::span<const ValueId> dy) {
  LOCKSTEP_ASSIGN(const ValueId dx, build.emit(Op::kMeanPool2dGrad, "x", {dy[0]},
                                               {{"shape", build.type(node.inputs[0]).shape}}));
  return std::vector<ValueId>{dx};
}

// The splits that a contraction of two operands accepts. Dimension `keep*` of an operand becomes
// `to*` of the output; `sum*` is contracted.
struct Bilinear {
  int keep0, to0;
  int keep1, to1;
  std::vector<std::pair<int, int>> sums;
};

Placing placeBilinear(const Node& node, Places inputs, const Bilinear& rule) {
  const AxisPlacement &a = inputs[0], &b = inputs[1];
  const bool hasBias = inputs.size() == 3;
  const bool biasWhole = !hasBias || isReplicated(inputs[2]);
  const bool plain = !hasBias && textAttr(node.attrs, "act").empty();
  if (isReplicated(a) && isReplicated(b) && biasWhole) return placedAt({AxisPlacement{}});
  if (rule.keep0 >= 0 && isSplit(a, rule.keep0) && isReplicated(b) && biasWhole)
    return placedAt({splitAt(rule.to0, a)});
  if (rule.keep1 >= 0 && isReplicated(a) && isSplit(b, rule.keep1) &&
      (!hasBias || inputs[2] == splitAt(0, b)))
    return placedAt({splitAt(rule.to1, b)});
  bool contracted = false;
  for (const auto& [first, second] : rule.sums)
    contracted = contracted || (isSplit(a, first) && isSplit(b, second) && a.cuts == b.cuts);
  const bool linear = (isSum(a) && isReplicated(b)) || (isReplicated(a) && isSum(b));
  if (plain && (contracted || linear)) return placedAt({partialSum()});
  if (!isReplicated(a) && !isSplit(a, rule.keep0)) return mustReplicate(0);
  if (!isReplicated(b)) return mustReplicate(1);
  return mustReplicate(biasWhole ? 0 : 2);
}

Placing placeConv2d(const Node& node, Places inputs, Types, Types) {
  return placeBilinear(node, inputs, {0, 0, 3, 3, {{3, 2}}});
}
Placing placeConv2dInputGrad(const Node& node, Places inputs, Types, Types) {
  return placeBilinear(node, inputs, {0, 0, 2, 3, {{3, 3}}});
}
Placing placeConv2dWeightGrad(const Node& node, Places inputs, Types, Types) {
  return placeBilinear(node, inputs, {3, 2, 3, 3, {{0, 0}}});
}

Placing placePool(const Node& node, Places inputs, Types inputTypes, Types outputs) {
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (isSplit(inputs[i], 1) || isSplit(inputs[i], 2)) return mustReplicate(i);
  return placeElementwise(node, inputs, inputTypes, outputs);
}

// Linear in the image; may be split by samples or channels.
Placing placeMeanPool(const Node& node, Places inputs, Types, Types) {
  const bool forward = node.op == Op::kMeanPool2d;
  const int channels = forward ? 3 : 1;
  if (isReplicated(inputs[0]) || isSum(inputs[0]) || isSplit(inputs[0], 0))
    return placedAt({inputs[0]});
  if (isSplit(inputs[0], channels)) return placedAt({splitAt(forward ? 1 : 3, inputs[0])});
  return mustReplicate(0);
}

// Each element of y is a dot product over kh·kw·C.
OpCost convCost(const TensorType& y, const Shape& w, Types inputs, Types outputs) {
  return {2.0 * static_cast<double>(y.count()) * static_cast<double>(w[0] * w[1] * w[2]),
          movedBytes(inputs, outputs)};
}
OpCost costConv2d(const Node&, Types inputs, Types outputs) {
  return convCost(outputs[0], inputs[1].shape, inputs, outputs);
}
OpCost costConv2dInputGrad(const Node&, Types inputs, Types outputs) {
  return convCost(inputs[0], inputs[1].shape, inputs, outputs);
}
OpCost costConv2dWeightGrad(const Node&, Types inputs, Types outputs) {
  return convCost(inputs[1], outputs[0].shape, inputs, outputs);
}
OpCost costMaxPool2d(const Node& node, Types inputs, Types outputs) {
  const auto size = static_cast<double>(intAttr(node.attrs, "size"));
  return {size * size * static_cast<double>(outputs[0].count()), movedBytes(inputs, outputs)};
}

constexpr AttrInfo kStride{"stride", AttrKind::kInt};
constexpr AttrInfo kPad{"pad", AttrKind::kInt};
constexpr AttrInfo kSize{"size", AttrKind::kInt};
constexpr AttrInfo kShape{"shape", AttrKind::kShape};
constexpr AttrInfo kAct{"act", AttrKind::kText, false};
constexpr AttrInfo kTf32{"tf32", AttrKind::kInt, false};

}  // namespace

std::vector<OpInfo> imageOps() {
  // clang-format off
  return {
      {.op = Op::kConv2d, .name = "conv2d", .minInputs = 2, .maxInputs = 3,
       .attrs = {kStride, kPad, kAct, kTf32}, .infer = inferConv2d, .gradient = gradConv2d,
       .place = placeConv2d, .cost = costConv2d, .matmulOperands = 2, .costlyToRecompute = true},
      {.op = Op::kConv2dInputGrad, .name = "conv2d-input-grad", .minInputs = 2, .maxInputs = 2,
       .attrs = {kStride, kPad, kShape, kTf32}, .infer = inferConv2dInputGrad,
       .place = placeConv2dInputGrad, .cost = costConv2dInputGrad, .matmulOperands = 2},
      {.op = Op::kConv2dWeightGrad, .name = "conv2d-weight-grad", .minInputs = 2, .maxInputs = 2,
       .attrs = {kStride, kPad, kShape, kTf32}, .infer = inferConv2dWeightGrad,
       .place = placeConv2dWeightGrad, .cost = costConv2dWeightGrad, .matmulOperands = 2},
      {.op = Op::kMaxPool2d, .name = "max-pool2d", .minInputs = 1, .maxInputs = 1,
       .attrs = {kSize, kStride}, .infer = inferMaxPool2d, .gradient = gradMaxPool2d,
       .place = placePool, .cost = costMaxPool2d},
      {.op = Op::kMaxPool2dGrad, .name = "max-pool2d-grad", .minInputs = 3, .maxInputs = 3,
       .attrs = {kSize, kStride, kAct}, .infer = inferMaxPool2dGrad, .place = placePool,
       .cost = costElementwise},
      {.op = Op::kMeanPool2d, .name = "mean-pool2d", .minInputs = 1, .maxInputs = 1,
       .infer = inferMeanPool2d, .gradient = gradMeanPool2d, .place = placeMeanPool,
       .cost = costElementwise},
      {.op = Op::kMeanPool2dGrad, .name = "mean-pool2d-grad", .minInputs = 1, .maxInputs = 1,
       .attrs = {kShape}, .infer = inferMeanPool2dGrad, .place = placeMeanPool,
       .cost = costElementwise},
  };
  // clang-format on
}

}  // namespace lockstep::ir::rules
