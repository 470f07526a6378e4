// Op table rows: losses and metrics, sums over samples.
#include <algorithm>

#include "engine/ir/ops_rules.h"

namespace lockstep::ir::rules {
namespace {

// (scores[B×K], label i32[B], w[B])
Status wantClassified(Types inputs) {
  LOCKSTEP_TRY(wantFloat(inputs, 0));
  LOCKSTEP_TRY(wantRank(inputs, 0, 2, "two dimensions, batch and classes"));
  const Shape batch{inputs[0].shape[0]};
  LOCKSTEP_TRY(wantType(inputs, 1, {DType::kI32, batch}));
  return wantType(inputs, 2, {inputs[0].dtype, batch});
}

// (y[B×K], target[B×K], w[B])
Status wantRegressed(Types inputs) {
  LOCKSTEP_TRY(wantFloat(inputs, 0));
  LOCKSTEP_TRY(wantRank(inputs, 0, 2, "two dimensions, batch and outputs"));
  LOCKSTEP_TRY(wantType(inputs, 1, inputs[0]));
  return wantType(inputs, 2, {inputs[0].dtype, {inputs[0].shape[0]}});
}

TensorType one(const TensorType& like) { return {like.dtype, {1}}; }

Inferred inferSoftmaxXent(Types inputs, const Attrs&) {
  LOCKSTEP_TRY(wantClassified(inputs));
  return std::vector<TensorType>{one(inputs[0]), inputs[2]};
}
Inferred inferSoftmaxXentGrad(Types inputs, const Attrs&) {
  LOCKSTEP_TRY(wantClassified(inputs));
  LOCKSTEP_TRY(wantType(inputs, 3, inputs[2]));
  LOCKSTEP_TRY(wantType(inputs, 4, one(inputs[0])));
  return std::vector<TensorType>{inputs[0]};
}
Inferred inferMseLoss(Types inputs, const Attrs&) {
  LOCKSTEP_TRY(wantRegressed(inputs));
  return std::vector<TensorType>{one(inputs[0])};
}
Inferred inferMseLossGrad(Types inputs, const Attrs&) {
  LOCKSTEP_TRY(wantRegressed(inputs));
  LOCKSTEP_TRY(wantType(inputs, 3, one(inputs[0])));
  return std::vector<TensorType>{inputs[0]};
}
Inferred inferScoreHistogram(Types inputs, const Attrs& attrs) {
  LOCKSTEP_TRY(wantRegressed(inputs));
  if (inputs[0].shape[1] != 1) return wrongInput(inputs, 0, "one score a sample");
  const std::int64_t bins = intAttr(attrs, "bins");
  if (bins < 1 || bins > kMaxCount / 2)
    return invalidArgument("bins is {}, expected at least 1", bins);
  return std::vector<TensorType>{{inputs[0].dtype, {2 * bins}}};
}
Inferred inferCountCorrect(Types inputs, const Attrs&) {
  LOCKSTEP_TRY(wantClassified(inputs));
  return std::vector<TensorType>{one(inputs[0])};
}
Inferred inferSumAll(Types inputs, const Attrs&) {
  LOCKSTEP_TRY(wantFloat(inputs, 0));
  return std::vector<TensorType>{one(inputs[0])};
}

Grads gradSoftmaxXent(GradBuilder& build, const Node& node, std::span<const ValueId> dy) {
  if (dy[1] >= 0)
    return invalidArgument(
        "the sums of {} take part in the loss; only its result can be "
        "differentiated",
        node.name);
  if (build.wants(node.inputs[2]))
    return invalidArgument("the sample weights of {} depend on a state; they must be data",
                           node.name);
  std::vector<ValueId> grads(3, -1);
  if (build.wants(node.inputs[0])) {
    LOCKSTEP_ASSIGN(
        grads[0],
        build.emit(Op::kSoftmaxXentGrad, "x",
                   {node.inputs[0], node.inputs[1], node.inputs[2], node.outputs[1], dy[0]}, {}));
  }
  return grads;
}

Grads gradMseLoss(GradBuilder& build, const Node& node, std::span<const ValueId> dy) {
  if (build.wants(node.inputs[2]))
    return invalidArgument("the sample weights of {} depend on a state; they must be data",
                           node.name);
  LOCKSTEP_ASSIGN(const ValueId grad,
                  build.emit(Op::kMseLossGrad, "x",
                             {node.inputs[0], node.inputs[1], node.inputs[2], dy[0]}, {}));
  std::vector<ValueId> grads(3, -1);
  if (build.wants(node.inputs[0])) grads[0] = grad;
  if (build.wants(node.inputs[1])) {
    LOCKSTEP_ASSIGN(grads[1], build.emit(Op::kScale, "target", {grad}, {{"factor", -1.0}}));
  }
  return grads;
}

// Targets are data and have no gradient.
Grads gradBinaryXent(GradBuilder& build, const Node& node, std::span<const ValueId> dy) {
  if (build.wants(node.inputs[1]) || build.wants(node.inputs[2]))
    return invalidArgument("targets or sample weights of {} depend on a state; they must be data",
                           node.name);
  std::vector<ValueId> grads(3, -1);
  LOCKSTEP_ASSIGN(grads[0],
                  build.emit(Op::kBinaryXentGrad, "x",
                             {node.inputs[0], node.inputs[1], node.inputs[2], dy[0]}, {}));
  return grads;
}

// dx is dy broadcast: a column of ones times dy.
Grads gradSumAll(GradBuilder& build, const Node& node, std::span<const ValueId> dy) {
  const TensorType type = build.type(node.inputs[0]);
  LOCKSTEP_ASSIGN(ValueId ones, build.emit(Op::kFill, "ones", {},
                                           {{"dtype", std::string(dtypeName(type.dtype))},
                                            {"shape", Shape{type.count(), 1}},
                                            {"value", 1.0}}));
  LOCKSTEP_ASSIGN(ValueId scalar,
                  build.emit(Op::kReshape, "dy", {dy[0]}, {{"shape", Shape{1, 1}}}));
  LOCKSTEP_ASSIGN(ValueId column, build.emit(Op::kMatmul, "column", {ones, scalar}, {}));
  LOCKSTEP_ASSIGN(ValueId dx, build.emit(Op::kReshape, "x", {column}, {{"shape", type.shape}}));
  return std::vector<ValueId>{dx};
}

// The sum over a split input is a partial sum.
AxisPlacement sumOf(const AxisPlacement& placement) {
  return isSplit(placement) ? partialSum() : placement;
}

// The first `count` inputs have a row for each sample and are split along the batch or replicated
// together; the others are replicated.
Placing placeSamples(Places inputs, std::size_t count) {
  const auto split =
      std::find_if(inputs.begin(), inputs.begin() + static_cast<std::ptrdiff_t>(count),
                   [](const auto& p) { return isSplit(p, 0); });
  const AxisPlacement common =
      split == inputs.begin() + static_cast<std::ptrdiff_t>(count) ? AxisPlacement{} : *split;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const AxisPlacement& wanted = i < count ? common : AxisPlacement{};
    if (inputs[i] != wanted) return mustBe(i, wanted);
  }
  return placedAt({common});
}

Placing placeSoftmaxXent(const Node&, Places inputs, Types, Types) {
  Placing placing = placeSamples(inputs, 3);
  if (placing.input >= 0) return placing;
  return placedAt({sumOf(placing.outputs[0]), placing.outputs[0]});
}
// ---- Vocabulary-parallel cross-entropy.

TensorType rows(const TensorType& like) { return {like.dtype, {like.shape[0]}}; }
// (x[B×K], then label i32[B] if `labels`, then `more` operands f[B])
Status wantClasses(Types inputs, std::size_t x, const Attrs& attrs) {
  LOCKSTEP_TRY(wantFloat(inputs, x));
  LOCKSTEP_TRY(wantRank(inputs, x, 2, "two dimensions, batch and classes"));
  if (const std::int64_t first = intAttr(attrs, "first"); first < 0)
    return invalidArgument("first is {}, expected a class", first);
  return wantAxis(attrs);
}
Inferred inferRowMax(Types inputs, const Attrs& attrs) {
  LOCKSTEP_TRY(wantClasses(inputs, 0, attrs));
  return std::vector<TensorType>{rows(inputs[0])};
}
Inferred inferXentTerms(Types inputs, const Attrs& attrs) {
  LOCKSTEP_TRY(wantClasses(inputs, 0, attrs));
  LOCKSTEP_TRY(wantType(inputs, 1, {DType::kI32, {inputs[0].shape[0]}}));
  LOCKSTEP_TRY(wantType(inputs, 2, rows(inputs[0])));
  return std::vector<TensorType>(2, rows(inputs[0]));
}
Inferred inferXentTermsGrad(Types inputs, const Attrs& attrs) {
  LOCKSTEP_TRY(inferXentTerms(inputs.subspan(2), attrs).status());
  for (std::size_t i = 0; i < 2; ++i) LOCKSTEP_TRY(wantType(inputs, i, rows(inputs[2])));
  return std::vector<TensorType>{inputs[2]};
}
Inferred inferXentLoss(Types inputs, const Attrs&) {
  LOCKSTEP_TRY(wantFloat(inputs, 0));
  LOCKSTEP_TRY(wantRank(inputs, 0, 1, "one dimension, the batch"));
  for (std::size_t i = 1; i < 3; ++i) LOCKSTEP_TRY(wantType(inputs, i, inputs[0]));
  return std::vector<TensorType>{one(inputs[0])};
}
Inferred inferXentLossGrad(Types inputs, const Attrs&) {
  LOCKSTEP_TRY(wantFloat(inputs, 0));
  LOCKSTEP_TRY(wantRank(inputs, 0, 1, "one dimension, the batch"));
  LOCKSTEP_TRY(wantType(inputs, 1, inputs[0]));
  LOCKSTEP_TRY(wantType(inputs, 2, one(inputs[0])));
  return std::vector<TensorType>(2, inputs[0]);
}

Grads gradXentTerms(GradBuilder& build, const Node& node, std::span<const ValueId> dy) {
  if (dy[0] < 0 || dy[1] < 0)
    return invalidArgument("{} takes part in the loss by one of its results", node.name);
  LOCKSTEP_ASSIGN(
      const ValueId dx,
      build.emit(Op::kXentTermsGrad, "x",
                 {dy[0], dy[1], node.inputs[0], node.inputs[1], node.inputs[2]}, node.attrs));
  return std::vector<ValueId>{dx, -1, -1};
}
Grads gradXentLoss(GradBuilder& build, const Node& node, std::span<const ValueId> dy) {
  LOCKSTEP_ASSIGN(const ValueId ds, build.emit(Op::kXentLossGrad, "terms",
                                               {node.inputs[0], node.inputs[2], dy[0]}, {}));
  return std::vector<ValueId>{ds, ds + 1, -1};
}

// The classes of `x` may be split; the others are then replicated and the outputs are placed as
// `made`. Else all are split along the batch, or replicated.
Placing placeClasses(Places inputs, std::size_t x, Types outputs, const AxisPlacement& made) {
  if (!isSplit(inputs[x], 1)) {
    Placing placing = placeSamples(inputs, inputs.size());
    if (placing.input < 0) placing.outputs.resize(outputs.size(), placing.outputs[0]);
    return placing;
  }
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (i != x && !isReplicated(inputs[i])) return mustReplicate(i);
  return placedAt(std::vector<AxisPlacement>(outputs.size(), made));
}
Placing placeRowMax(const Node&, Places inputs, Types, Types outputs) {
  return placeClasses(inputs, 0, outputs, {Kind::kPartialMax, 0, {}});
}
Placing placeXentTerms(const Node&, Places inputs, Types, Types outputs) {
  return placeClasses(inputs, 0, outputs, partialSum());
}
Placing placeXentTermsGrad(const Node&, Places inputs, Types, Types outputs) {
  return placeClasses(inputs, 2, outputs, inputs[2]);
}
Placing placeXentLossGrad(const Node&, Places inputs, Types, Types outputs) {
  Placing placing = placeSamples(inputs, 2);
  if (placing.input < 0) placing.outputs.resize(outputs.size(), placing.outputs[0]);
  return placing;
}

Placing placeLossSum(const Node&, Places inputs, Types, Types) {
  Placing placing = placeSamples(inputs, 3);
  if (placing.input < 0) placing.outputs = {sumOf(placing.outputs[0])};
  return placing;
}
Placing placeSoftmaxXentGrad(const Node&, Places inputs, Types, Types) {
  return placeSamples(inputs, 4);
}
Placing placeLossGrad(const Node&, Places inputs, Types, Types) { return placeSamples(inputs, 3); }
Placing placeSumAll(const Node&, Places inputs, Types, Types) {
  if (isReplicated(inputs[0])) return placedAt({inputs[0]});
  if (isSplit(inputs[0]) || isSum(inputs[0])) return placedAt({partialSum()});
  return mustReplicate(0);
}

Inferred inferSumSquares(Types inputs, const Attrs&) {
  LOCKSTEP_TRY(wantFloat(inputs, 0));
  if (inputs.size() > 1) {
    LOCKSTEP_TRY(wantRank(inputs, 1, 1, "one dimension, ids"));
    LOCKSTEP_TRY(wantType(inputs, 1, {DType::kI32, inputs[1].shape}));
    if (inputs[0].count() % inputs[1].shape[0] != 0)
      return wrongInput(inputs, 0, fmt::format("{} rows", inputs[1].shape[0]));
  }
  return std::vector<TensorType>{one(inputs[0])};
}
// Squaring is not linear: partial sums are reduced first.
Placing placeSumSquares(const Node&, Places inputs, Types, Types) {
  if (inputs.size() > 1 && !isReplicated(inputs[1])) return mustReplicate(1);
  if (isReplicated(inputs[0])) return placedAt({inputs[0]});
  if (inputs.size() == 1 && isSplit(inputs[0])) return placedAt({partialSum()});
  return mustReplicate(0);
}
// Each input has one element.
Inferred inferOnes(Types inputs, const Attrs&) {
  LOCKSTEP_TRY(wantFloat(inputs, 0));
  for (std::size_t i = 0; i < inputs.size(); ++i) LOCKSTEP_TRY(wantType(inputs, i, one(inputs[0])));
  return std::vector<TensorType>{one(inputs[0])};
}
Placing placeOnes(const Node&, Places inputs, Types, Types outputs) {
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (!isReplicated(inputs[i])) return mustReplicate(i);
  return placedAt(std::vector<AxisPlacement>(outputs.size()));
}
Inferred inferLossScale(Types inputs, const Attrs& attrs) {
  LOCKSTEP_TRY(inferOnes(inputs, attrs).status());
  if (!(floatAttr(attrs, "interval") >= 1))
    return invalidArgument("interval is {}, expected at least 1", floatAttr(attrs, "interval"));
  if (!(floatAttr(attrs, "factor") >= 1))
    return invalidArgument("factor is {}, expected at least 1", floatAttr(attrs, "factor"));
  return std::vector<TensorType>(3, one(inputs[0]));
}
Inferred inferClipNorm(Types inputs, const Attrs& attrs) {
  LOCKSTEP_TRY(wantFloat(inputs, 0));
  for (std::size_t i = 0; i < 2; ++i) LOCKSTEP_TRY(wantType(inputs, i, one(inputs[0])));
  if (!(floatAttr(attrs, "limit") > 0))
    return invalidArgument("limit is {}, expected more than 0", floatAttr(attrs, "limit"));
  return std::vector<TensorType>{one(inputs[0])};
}

OpCost costSoftmax(const Node&, Types inputs, Types outputs) {
  return {25.0 * static_cast<double>(inputs[0].count()), movedBytes(inputs, outputs)};
}
OpCost costTermsGrad(const Node&, Types inputs, Types outputs) {
  return {25.0 * static_cast<double>(inputs[2].count()), movedBytes(inputs, outputs)};
}
OpCost costTriple(const Node&, Types inputs, Types outputs) {
  return {3.0 * static_cast<double>(inputs[0].count()), movedBytes(inputs, outputs)};
}

}  // namespace

std::vector<OpInfo> lossOps() {
  const std::vector<AttrInfo> classes{{"first", AttrKind::kInt, false},
                                      {"axis", AttrKind::kText, false},
                                      {"stride", AttrKind::kInt, false}};
  // clang-format off
  return {
      {.op = Op::kSoftmaxXent, .name = "softmax-xent", .minInputs = 3, .maxInputs = 3, .outputs = 2,
       .infer = inferSoftmaxXent, .gradient = gradSoftmaxXent, .place = placeSoftmaxXent,
       .cost = costSoftmax, .narrowInputs = 0b1},
      {.op = Op::kSoftmaxXentGrad, .name = "softmax-xent-grad", .minInputs = 5, .maxInputs = 5,
       .inPlace = {0}, .infer = inferSoftmaxXentGrad, .place = placeSoftmaxXentGrad,
       .cost = costSoftmax, .narrowInputs = 0b1, .narrowOutput = true,
       .stored = OpInfo::Stored::kNarrow},
      {.op = Op::kRowMax, .name = "row-max", .minInputs = 1, .maxInputs = 1, .infer = inferRowMax,
       .place = placeRowMax, .cost = costElementwise, .narrowInputs = 0b1},
      {.op = Op::kXentTerms, .name = "xent-terms", .minInputs = 3, .maxInputs = 3, .outputs = 2,
       .attrs = classes, .infer = inferXentTerms, .gradient = gradXentTerms,
       .place = placeXentTerms, .cost = costSoftmax, .narrowInputs = 0b1,
       .partOffset = {PartOffset::Unit::kIndices, 0, 1}},
      {.op = Op::kXentTermsGrad, .name = "xent-terms-grad", .minInputs = 5, .maxInputs = 5,
       .attrs = classes, .inPlace = {2}, .infer = inferXentTermsGrad, .place = placeXentTermsGrad,
       .cost = costTermsGrad, .narrowInputs = 0b100, .narrowOutput = true,
       .stored = OpInfo::Stored::kNarrow, .partOffset = {PartOffset::Unit::kIndices, 2, 1}},
      {.op = Op::kXentLoss, .name = "xent-loss", .minInputs = 3, .maxInputs = 3,
       .infer = inferXentLoss, .gradient = gradXentLoss, .place = placeLossSum, .cost = costTriple},
      {.op = Op::kXentLossGrad, .name = "xent-loss-grad", .minInputs = 3, .maxInputs = 3,
       .outputs = 2, .infer = inferXentLossGrad, .place = placeXentLossGrad,
       .cost = costElementwise},
      {.op = Op::kMseLoss, .name = "mse-loss", .minInputs = 3, .maxInputs = 3,
       .infer = inferMseLoss, .gradient = gradMseLoss, .place = placeLossSum, .cost = costTriple},
      {.op = Op::kMseLossGrad, .name = "mse-loss-grad", .minInputs = 4, .maxInputs = 4,
       .inPlace = {0}, .infer = inferMseLossGrad, .place = placeLossGrad, .cost = costTriple},
      {.op = Op::kBinaryXent, .name = "binary-xent", .minInputs = 3, .maxInputs = 3,
       .infer = inferMseLoss, .gradient = gradBinaryXent, .place = placeLossSum,
       .cost = costSoftmax},
      {.op = Op::kBinaryXentGrad, .name = "binary-xent-grad", .minInputs = 4, .maxInputs = 4,
       .inPlace = {0}, .infer = inferMseLossGrad, .place = placeLossGrad, .cost = costSoftmax},
      {.op = Op::kScoreHistogram, .name = "score-histogram", .minInputs = 3, .maxInputs = 3,
       .attrs = {{"bins", AttrKind::kInt}}, .infer = inferScoreHistogram, .place = placeLossSum,
       .cost = costSoftmax},
      {.op = Op::kCountCorrect, .name = "count-correct", .minInputs = 3, .maxInputs = 3,
       .infer = inferCountCorrect, .place = placeLossSum, .cost = costElementwise,
       .narrowInputs = 0b1},
      {.op = Op::kSumAll, .name = "sum-all", .minInputs = 1, .maxInputs = 1, .infer = inferSumAll,
       .gradient = gradSumAll, .place = placeSumAll, .cost = costElementwise},
      {.op = Op::kSumSquares, .name = "sum-squares", .minInputs = 1, .maxInputs = 2,
       .infer = inferSumSquares, .place = placeSumSquares, .cost = costElementwise},
      {.op = Op::kFiniteNorm, .name = "finite-norm", .minInputs = 2, .maxInputs = 3,
       .infer = inferOnes, .place = placeOnes, .cost = costElementwise},
      {.op = Op::kLossScale, .name = "loss-scale", .minInputs = 4, .maxInputs = 4, .outputs = 3,
       .attrs = {{"interval", AttrKind::kNumber}, {"factor", AttrKind::kNumber},
                 {"least", AttrKind::kNumber}, {"most", AttrKind::kNumber}},
       .infer = inferLossScale, .place = placeOnes, .cost = costElementwise},
      {.op = Op::kClipNorm, .name = "clip-norm", .minInputs = 2, .maxInputs = 2,
       .attrs = {{"limit", AttrKind::kNumber}}, .infer = inferClipNorm, .place = placeElementwise,
       .cost = costElementwise},
  };
  // clang-format on
}

}  // namespace lockstep::ir::rules
