// Op table rows: matmul and related ops.
#include "engine/ir/ops_rules.h"

namespace lockstep::ir::rules {
namespace {

struct Product {
  std::int64_t n, k, o;
};

bool transposed(const Attrs& attrs, std::string_view key) { return intAttr(attrs, key) != 0; }

Product product(Types inputs, const Attrs& attrs) {
  const Shape& a = inputs[0].shape;
  const Shape& b = inputs[1].shape;
  const bool ta = transposed(attrs, "ta");
  return {a[ta ? 1 : 0], a[ta ? 0 : 1], b[transposed(attrs, "tb") ? 0 : 1]};
}

Inferred inferMatmul(Types inputs, const Attrs& attrs) {
  LOCKSTEP_TRY(wantFloat(inputs, 0));
  LOCKSTEP_TRY(wantRank(inputs, 0, 2, "two dimensions"));
  LOCKSTEP_TRY(wantRank(inputs, 1, 2, "two dimensions"));
  for (std::string_view key : {"ta", "tb", "tf32"})
    if (const std::int64_t value = intAttr(attrs, key); value != 0 && value != 1)
      return invalidArgument("{} is {}, expected 0 or 1", key, value);
  LOCKSTEP_TRY(wantActivation(attrs));
  const Product size = product(inputs, attrs);
  const Shape b = transposed(attrs, "tb") ? Shape{size.o, size.k} : Shape{size.k, size.o};
  LOCKSTEP_TRY(wantType(inputs, 1, {inputs[0].dtype, b}));
  const DType sums = summedIn(inputs[0].dtype);
  if (inputs.size() == 3) LOCKSTEP_TRY(wantType(inputs, 2, {sums, {size.o}}));
  return std::vector<TensorType>{{sums, {size.n, size.o}}};
}

Grads gradMatmul(GradBuilder& build, const Node& node, std::span<const ValueId> outputGrads) {
  LOCKSTEP_ASSIGN(const ValueId dy, throughActivation(build, node, outputGrads[0]));
  const ValueId a = node.inputs[0], b = node.inputs[1];
  const bool ta = transposed(node.attrs, "ta"), tb = transposed(node.attrs, "tb");
  auto matmul = [&](std::string_view suffix, ValueId left, ValueId right, bool leftT, bool rightT) {
    Attrs attrs;
    if (leftT) attrs["ta"] = std::int64_t{1};
    if (rightT) attrs["tb"] = std::int64_t{1};
    return build.emit(Op::kMatmul, suffix, {left, right}, std::move(attrs));
  };
  std::vector<ValueId> grads(node.inputs.size(), -1);
  if (build.wants(b)) {
    LOCKSTEP_ASSIGN(grads[1], tb ? matmul("w", dy, a, true, ta) : matmul("w", a, dy, !ta, false));
  }
  if (node.inputs.size() == 3 && build.wants(node.inputs[2])) {
    LOCKSTEP_ASSIGN(grads[2], build.emit(Op::kReduceRows, "b", {dy}, {}));
  }
  if (build.wants(a)) {
    LOCKSTEP_ASSIGN(grads[0], ta ? matmul("x", b, dy, tb, true) : matmul("x", dy, b, false, !tb));
  }
  return grads;
}

Placing placeMatmul(const Node& node, Places inputs, Types, Types) {
  const AxisPlacement &a = inputs[0], &b = inputs[1];
  const bool plain = inputs.size() == 2 && textAttr(node.attrs, "act").empty();
  const bool biasWhole = inputs.size() == 2 || isReplicated(inputs[2]);
  const int aRows = transposed(node.attrs, "ta") ? 1 : 0;  // the dimension of a that is N
  const int bColumns = transposed(node.attrs, "tb") ? 0 : 1;
  if (isReplicated(a) && isReplicated(b) && biasWhole) return placedAt({AxisPlacement{}});
  if (isSplit(a, aRows) && isReplicated(b) && biasWhole) return placedAt({splitAt(0, a)});
  if (isReplicated(a) && isSplit(b, bColumns) && (inputs.size() == 2 || inputs[2] == splitAt(0, b)))
    return placedAt({splitAt(1, b)});
  const bool contracted = isSplit(a, 1 - aRows) && isSplit(b, 1 - bColumns) && a.cuts == b.cuts;
  const bool linear = (isSum(a) && isReplicated(b)) || (isReplicated(a) && isSum(b));
  if (plain && (contracted || linear)) return placedAt({partialSum()});
  // First the input that is neither replicated nor split by rows, then the others.
  if (!isReplicated(a) && !isSplit(a, aRows)) return mustReplicate(0);
  if (!isReplicated(b)) return mustReplicate(1);
  return mustReplicate(biasWhole ? 0 : 2);
}

OpCost costMatmul(const Node& node, Types inputs, Types outputs) {
  const Product size = product(inputs, node.attrs);
  return {
      2.0 * static_cast<double>(size.n) * static_cast<double>(size.k) * static_cast<double>(size.o),
      movedBytes(inputs, outputs)};
}

Inferred inferBiasAdd(Types inputs, const Attrs&) {
  LOCKSTEP_TRY(wantFloat(inputs, 0));
  if (inputs[0].shape.empty()) return wrongInput(inputs, 0, "at least one dimension");
  const std::int64_t channels = inputs[0].shape.back(), rows = inputs[0].count() / channels;
  if (inputs[1].shape.size() != 2)
    LOCKSTEP_TRY(wantType(inputs, 1, {inputs[0].dtype, {channels}}));
  else if (inputs[1].shape[1] != channels || rows % inputs[1].shape[0] != 0)
    return wrongInput(inputs, 1,
                      fmt::format("{} channels and rows that divide {}", channels, rows));
  return std::vector<TensorType>{inputs[0]};
}

Grads gradBiasAdd(GradBuilder& build, const Node& node, std::span<const ValueId> dy) {
  std::vector<ValueId> grads(2, -1);
  if (build.wants(node.inputs[1])) {
    const Shape& b = build.type(node.inputs[1]).shape;
    LOCKSTEP_ASSIGN(grads[1], build.emit(Op::kReduceRows, "b", {dy[0]},
                                         b.size() == 2 ? Attrs{{"period", b[0]}} : Attrs{}));
  }
  if (build.wants(node.inputs[0])) grads[0] = dy[0];
  return grads;
}

Placing placeBiasAdd(const Node&, Places inputs, Types inputTypes, Types) {
  const AxisPlacement &x = inputs[0], &b = inputs[1];
  const int last = static_cast<int>(inputTypes[0].shape.size()) - 1;
  const bool flat = inputTypes[1].shape.size() == 1;
  const bool whole = isReplicated(x) && isReplicated(b);
  const bool rows = isSplit(x) && x.dim != last && isReplicated(b);
  const bool columns = isSplit(x, last) && b == splitAt(flat ? 0 : 1, x);
  if (whole || rows || columns) return placedAt({x});
  return mustReplicate(isReplicated(b) ? 0 : 1);
}

Inferred inferConcat(Types inputs, const Attrs&) {
  std::int64_t columns = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    LOCKSTEP_TRY(wantFloat(inputs, i));
    LOCKSTEP_TRY(wantRank(inputs, i, 2, "two dimensions, rows and columns"));
    if (inputs[i].dtype != inputs[0].dtype || inputs[i].shape[0] != inputs[0].shape[0])
      return wrongInput(
          inputs, i, fmt::format("{} rows of {}", inputs[0].shape[0], dtypeName(inputs[0].dtype)));
    columns += inputs[i].shape[1];
  }
  return std::vector<TensorType>{{inputs[0].dtype, {inputs[0].shape[0], columns}}};
}
Inferred inferColumns(Types inputs, const Attrs& attrs) {
  LOCKSTEP_TRY(wantFloat(inputs, 0));
  LOCKSTEP_TRY(wantRank(inputs, 0, 2, "two dimensions, rows and columns"));
  const std::int64_t first = intAttr(attrs, "first"), count = intAttr(attrs, "count");
  if (first < 0 || count < 1 || count > inputs[0].shape[1] || first > inputs[0].shape[1] - count)
    return invalidArgument("{} columns from {} lie outside input 0, {}", count, first,
                           inputs[0].text());
  return std::vector<TensorType>{{inputs[0].dtype, {inputs[0].shape[0], count}}};
}

Grads gradConcat(GradBuilder& build, const Node& node, std::span<const ValueId> dy) {
  std::vector<ValueId> grads;
  std::int64_t first = 0;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const std::int64_t count = build.type(node.inputs[i]).shape[1];
    ValueId grad = -1;
    if (build.wants(node.inputs[i])) {
      LOCKSTEP_ASSIGN(grad, build.emit(Op::kColumns, fmt::format("x{}", i), {dy[0]},
                                       {{"first", first}, {"count", count}}));
    }
    grads.push_back(grad);
    first += count;
  }
  return grads;
}

// Rows are split alike; columns are not split.
Placing placeSideBySide(const Node& node, Places inputs, Types inputTypes, Types outputs) {
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (isSplit(inputs[i]) && inputs[i].dim != 0) return mustReplicate(i);
  return placeLinear(node, inputs, inputTypes, outputs);
}

Inferred inferReduceRows(Types inputs, const Attrs& attrs) {
  LOCKSTEP_TRY(wantFloat(inputs, 0));
  if (inputs[0].shape.empty()) return wrongInput(inputs, 0, "at least one dimension");
  const std::int64_t channels = inputs[0].shape.back(), rows = inputs[0].count() / channels;
  const std::int64_t period = intAttr(attrs, "period", 1);
  if (period < 1 || rows % period != 0)
    return invalidArgument("period is {}, expected a divisor of {} rows", period, rows);
  if (period == 1) return std::vector<TensorType>{{inputs[0].dtype, {channels}}};
  return std::vector<TensorType>{{inputs[0].dtype, {period, channels}}};
}

Grads gradReduceRows(GradBuilder& build, const Node& node, std::span<const ValueId> dy) {
  const TensorType type = build.type(node.inputs[0]);
  LOCKSTEP_ASSIGN(ValueId zeros, build.emit(Op::kFill, "zeros", {},
                                            {{"dtype", std::string(dtypeName(type.dtype))},
                                             {"shape", type.shape},
                                             {"value", 0.0}}));
  LOCKSTEP_ASSIGN(ValueId dx, build.emit(Op::kBiasAdd, "x", {zeros, dy[0]}, {}));
  return std::vector<ValueId>{dx};
}

Placing placeReduceRows(const Node&, Places inputs, Types inputTypes, Types outputTypes) {
  const AxisPlacement& x = inputs[0];
  const int last = static_cast<int>(inputTypes[0].shape.size()) - 1;
  if (isReplicated(x)) return placedAt({x});
  if (isSplit(x, last))
    return placedAt({splitAt(static_cast<int>(outputTypes[0].shape.size()) - 1, x)});
  if (isSplit(x) || isSum(x)) return placedAt({partialSum()});
  return mustReplicate(0);
}

}  // namespace

std::vector<OpInfo> denseOps() {
  // clang-format off
  return {
      {.op = Op::kMatmul, .name = "matmul", .minInputs = 2, .maxInputs = 3,
       .attrs = {{"ta", AttrKind::kInt, false}, {"tb", AttrKind::kInt, false},
                 {"act", AttrKind::kText, false}, {"tf32", AttrKind::kInt, false}},
       .infer = inferMatmul, .gradient = gradMatmul, .place = placeMatmul, .cost = costMatmul,
       .matmulOperands = 2, .narrowOutput = true, .stored = OpInfo::Stored::kNarrow,
       .costlyToRecompute = true},
      {.op = Op::kBiasAdd, .name = "bias-add", .minInputs = 2, .maxInputs = 2, .inPlace = {0},
       .infer = inferBiasAdd, .gradient = gradBiasAdd, .place = placeBiasAdd,
       .cost = costElementwise, .narrowOutput = true, .stored = OpInfo::Stored::kNarrow},
      {.op = Op::kConcat, .name = "concat", .minInputs = 1, .maxInputs = -1, .infer = inferConcat,
       .gradient = gradConcat, .place = placeSideBySide, .cost = costMove},
      {.op = Op::kColumns, .name = "columns", .minInputs = 1, .maxInputs = 1,
       .attrs = {{"first", AttrKind::kInt}, {"count", AttrKind::kInt}}, .infer = inferColumns,
       .place = placeSideBySide,
       .cost = [](const Node&, Types, Types outputs) { return OpCost{0, 2 * outputs[0].bytes()}; }},
      {.op = Op::kReduceRows, .name = "reduce-rows", .minInputs = 1, .maxInputs = 1,
       .attrs = {{"period", AttrKind::kInt, false}}, .infer = inferReduceRows,
       .gradient = gradReduceRows, .place = placeReduceRows, .cost = costElementwise,
       .narrowInputs = 0b1},
  };
  // clang-format on
}

}  // namespace lockstep::ir::rules
