// Op table rows: sequences of tokens.
#include <algorithm>
#include <functional>
#include <limits>
#include <optional>

#include "engine/ir/ops_rules.h"

namespace lockstep::ir::rules {
namespace {

Status wantRows(Types inputs, std::size_t index) {
  LOCKSTEP_TRY(wantFloat(inputs, index));
  return wantRank(inputs, index, 2, "two dimensions, rows and channels");
}

// ---- Embedding

Status wantFirst(const Attrs& attrs) {
  if (const std::int64_t first = intAttr(attrs, "first"); first < 0)
    return invalidArgument("first is {}, expected a row", first);
  if (const std::int64_t local = intAttr(attrs, "local"); local != 0 && local != 1)
    return invalidArgument("local is {}, expected 0 or 1", local);
  return wantAxis(attrs);
}

Inferred inferEmbedding(Types inputs, const Attrs& attrs) {
  LOCKSTEP_TRY(wantRows(inputs, 0));
  LOCKSTEP_TRY(wantRank(inputs, 1, 1, "one dimension, ids"));
  LOCKSTEP_TRY(wantType(inputs, 1, {DType::kI32, inputs[1].shape}));
  LOCKSTEP_TRY(wantFirst(attrs));
  return std::vector<TensorType>{{inputs[0].dtype, {inputs[1].shape[0], inputs[0].shape[1]}}};
}

Inferred inferEmbeddingGrad(Types inputs, const Attrs& attrs) {
  LOCKSTEP_TRY(wantRank(inputs, 0, 1, "one dimension, ids"));
  LOCKSTEP_TRY(wantType(inputs, 0, {DType::kI32, inputs[0].shape}));
  LOCKSTEP_TRY(wantRows(inputs, 1));
  LOCKSTEP_TRY(wantFirst(attrs));
  Shape table = shapeAttr(attrs);
  if (inputs[1].shape[0] != inputs[0].shape[0] || table.size() != 2 ||
      table[1] != inputs[1].shape[1])
    return wrongInput(inputs, 1, "a row for each id, with the table's channels");
  return std::vector<TensorType>{{inputs[1].dtype, std::move(table)}};
}

Grads gradEmbedding(GradBuilder& build, const Node& node, std::span<const ValueId> dy) {
  Attrs attrs = node.attrs;
  attrs["shape"] = build.type(node.inputs[0]).shape;
  LOCKSTEP_ASSIGN(const ValueId table,
                  build.emit(Op::kEmbeddingGrad, "table", {node.inputs[1], dy[0]}, attrs));
  return std::vector<ValueId>{table, -1};
}

// Returns equal parts for rows that belong to the parts of `split`, whatever their size; nothing if
// the rows do not divide evenly.
std::optional<AxisPlacement> inEqualParts(const AxisPlacement& split, std::int64_t rows) {
  if (isReplicated(split)) return split;
  const std::int64_t parts = std::ssize(split.cuts) - 1;
  if (!isSplit(split, 0) || rows % parts != 0) return std::nullopt;
  AxisPlacement equal = split;
  for (std::int64_t part = 0; part <= parts; ++part)
    equal.cuts[static_cast<std::size_t>(part)] = part * (rows / parts);
  return equal;
}

// Splits the ids along the batch, the table by channels, or the table by rows, where a rank outputs
// zeros for rows it does not hold (Megatron's vocabulary-parallel embedding: Shoeybi et al. 2019).
Placing placeEmbedding(const Node& node, Places inputs, Types, Types) {
  const AxisPlacement &table = inputs[0], &ids = inputs[1];
  if (intAttr(node.attrs, "local") != 0) {
    const bool alike = isSplit(table, 0) && isSplit(ids, 0) && table.cuts.size() == ids.cuts.size();
    if (alike || (isReplicated(table) && isReplicated(ids))) return placedAt({ids});
    return mustReplicate(isReplicated(table) ? 1 : 0);
  }
  if (isReplicated(table) && (isReplicated(ids) || isSplit(ids, 0))) return placedAt({ids});
  if (!isReplicated(ids)) return mustReplicate(isReplicated(table) ? 1 : 0);
  if (isSplit(table, 0)) return placedAt({partialSum()});
  if (isSplit(table, 1)) return placedAt({table});
  return mustReplicate(0);
}

// Partial sum if dy is split along the batch; split by channels if dy is.
Placing placeEmbeddingGrad(const Node& node, Places inputs, Types, Types outputs) {
  const AxisPlacement &ids = inputs[0], &dy = inputs[1];
  if (intAttr(node.attrs, "local") != 0) {
    if (ids != dy) return mustReplicate(isReplicated(ids) ? 1 : 0);
    const auto parts = inEqualParts(ids, outputs[0].shape[0]);
    return parts ? placedAt({*parts}) : mustReplicate(0);
  }
  if (isReplicated(ids) && (isReplicated(dy) || isSplit(dy, 1) || isSum(dy))) return placedAt({dy});
  if (isSplit(ids, 0) && ids == dy) return placedAt({partialSum()});
  if (isSplit(ids, 0) && isReplicated(dy)) return mustBe(1, ids);
  if (isReplicated(ids) && isSplit(dy, 0)) return mustBe(0, dy);
  return mustReplicate(isReplicated(dy) ? 0 : 1);
}

Inferred inferUnique(Types inputs, const Attrs& attrs) {
  LOCKSTEP_TRY(wantRank(inputs, 0, 1, "one dimension, ids"));
  LOCKSTEP_TRY(wantType(inputs, 0, {DType::kI32, inputs[0].shape}));
  const std::vector<std::int64_t> cuts = listAttr(attrs, "cuts");
  const bool ascending = std::is_sorted(cuts.begin(), cuts.end(), std::less_equal<>());
  if (cuts.size() < 2 || cuts.front() != 0 || !ascending ||
      cuts.back() > std::numeric_limits<std::int32_t>::max())
    return invalidArgument("cuts are not ascending ids from 0");
  const Shape each = shapeAttr(attrs);
  if (each.size() != 1 || each[0] < inputs[0].count())
    return invalidArgument("shape is [{}], expected at least {} ids", shapeText(each),
                           inputs[0].count());
  return std::vector<TensorType>{
      {DType::kI32, each}, {DType::kI32, {std::ssize(cuts) - 1}}, inputs[0]};
}
// The unique ids of a part of the ids are a part; their counts differ between ranks.
Placing placeUnique(const Node&, Places inputs, Types, Types outputs) {
  const auto parts = inEqualParts(inputs[0], outputs[0].shape[0]);
  if (!parts) return mustReplicate(0);
  return placedAt({*parts, {}, inputs[0]});
}
OpCost costUnique(const Node&, Types inputs, Types outputs) {
  return {0, movedBytes(inputs, outputs) + 4 * rowTable(inputs[0].count())};
}

// (rows, ids), with a row of equal length for each id
Status wantRowsOf(Types inputs, std::size_t rows, std::size_t ids) {
  LOCKSTEP_TRY(wantFloat(inputs, rows));
  LOCKSTEP_TRY(wantRank(inputs, ids, 1, "one dimension, ids"));
  LOCKSTEP_TRY(wantType(inputs, ids, {DType::kI32, inputs[ids].shape}));
  if (inputs[rows].count() % inputs[ids].shape[0] != 0)
    return wrongInput(inputs, rows, fmt::format("{} rows", inputs[ids].shape[0]));
  return {};
}
Inferred inferCombineRows(Types inputs, const Attrs&) {
  LOCKSTEP_TRY(wantRowsOf(inputs, 0, 1));
  return std::vector<TensorType>{{inputs[0].dtype, {inputs[0].count()}},
                                 inputs[1],
                                 {DType::kI32, {rowTable(inputs[1].count())}}};
}
// Ranks may share ids: rows are gathered first.
Placing placeCombineRows(const Node&, Places inputs, Types, Types outputs) {
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (!isReplicated(inputs[i])) return mustReplicate(i);
  return placedAt(std::vector<AxisPlacement>(outputs.size()));
}

// ---- Layer norm

Inferred inferLayerNorm(Types inputs, const Attrs&) {
  LOCKSTEP_TRY(wantRows(inputs, 0));
  const TensorType channels{inputs[0].dtype, {inputs[0].shape[1]}};
  LOCKSTEP_TRY(wantType(inputs, 1, channels));
  LOCKSTEP_TRY(wantType(inputs, 2, channels));
  const TensorType rows{inputs[0].dtype, {inputs[0].shape[0]}};
  return std::vector<TensorType>{inputs[0], rows, rows};
}

// `operands` inputs of x's shape, then the others; mean and rstd are the last two.
Status wantStatistics(Types inputs) {
  const TensorType rows{inputs[0].dtype, {inputs[0].shape[0]}};
  LOCKSTEP_TRY(wantType(inputs, inputs.size() - 2, rows));
  return wantType(inputs, inputs.size() - 1, rows);
}
Inferred inferLayerNormGrad(Types inputs, const Attrs&) {
  LOCKSTEP_TRY(wantRows(inputs, 0));
  LOCKSTEP_TRY(wantType(inputs, 1, inputs[0]));
  LOCKSTEP_TRY(wantType(inputs, 2, {inputs[0].dtype, {inputs[0].shape[1]}}));
  LOCKSTEP_TRY(wantStatistics(inputs));
  return std::vector<TensorType>{inputs[0]};
}
Inferred inferLayerNormWeightGrad(Types inputs, const Attrs&) {
  LOCKSTEP_TRY(wantRows(inputs, 0));
  LOCKSTEP_TRY(wantType(inputs, 1, inputs[0]));
  LOCKSTEP_TRY(wantStatistics(inputs));
  return std::vector<TensorType>(2, {inputs[0].dtype, {inputs[0].shape[1]}});
}

Grads gradLayerNorm(GradBuilder& build, const Node& node, std::span<const ValueId> dy) {
  const ValueId x = node.inputs[0], mean = node.outputs[1], rstd = node.outputs[2];
  if (dy[1] >= 0 || dy[2] >= 0)
    return invalidArgument(
        "the statistics of {} take part in the loss; only its result can be "
        "differentiated",
        node.name);
  std::vector<ValueId> grads(3, -1);
  if (build.wants(node.inputs[1]) || build.wants(node.inputs[2])) {
    LOCKSTEP_ASSIGN(grads[1],
                    build.emit(Op::kLayerNormWeightGrad, "w", {dy[0], x, mean, rstd}, {}));
    grads[2] = grads[1] + 1;  // outputs of a node have consecutive ids
  }
  if (build.wants(x)) {
    LOCKSTEP_ASSIGN(
        grads[0], build.emit(Op::kLayerNormGrad, "x", {dy[0], x, node.inputs[1], mean, rstd}, {}));
  }
  return grads;
}

// The first row-wise input decides; rows are split alike, the others are replicated.
Placing placeRows(Places inputs, std::initializer_list<bool> rowwise) {
  AxisPlacement common;
  std::size_t i = 0;
  for (const bool isRows : rowwise) {
    if (isRows && isSplit(inputs[i], 0)) common = inputs[i];
    ++i;
  }
  i = 0;
  for (const bool isRows : rowwise) {
    const AxisPlacement wanted = isRows ? common : AxisPlacement{};
    if (inputs[i] != wanted) return mustBe(i, wanted);
    ++i;
  }
  return placedAt({common});
}
Placing placeLayerNorm(const Node&, Places inputs, Types, Types) {
  Placing placing = placeRows(inputs, {true, false, false});
  if (placing.input < 0) placing.outputs.resize(3, placing.outputs[0]);
  return placing;
}
Placing placeLayerNormGrad(const Node&, Places inputs, Types, Types) {
  return placeRows(inputs, {true, true, false, true, true});
}
Placing placeLayerNormWeightGrad(const Node&, Places inputs, Types, Types) {
  Placing placing = placeRows(inputs, {true, true, true, true});
  if (placing.input >= 0) return placing;
  const AxisPlacement sums = isSplit(placing.outputs[0]) ? partialSum() : AxisPlacement{};
  return placedAt({sums, sums});
}

// ---- Attention

Inferred inferAttention(Types inputs, const Attrs& attrs) {
  LOCKSTEP_TRY(wantRows(inputs, 0));
  const std::int64_t tokens = intAttr(attrs, "tokens"), head = intAttr(attrs, "head");
  const std::int64_t rows = inputs[0].shape[0], channels = inputs[0].shape[1];
  if (tokens < 1 || rows % tokens != 0)
    return invalidArgument("tokens is {}, expected a divisor of {} rows", tokens, rows);
  if (head < 1 || channels % 3 != 0 || channels / 3 % head != 0)
    return invalidArgument("head is {}, expected a divisor of a third of {} channels", head,
                           channels);
  if (const std::int64_t causal = intAttr(attrs, "causal"); causal != 0 && causal != 1)
    return invalidArgument("causal is {}, expected 0 or 1", causal);
  if (const std::string_view operandDtype = textAttr(attrs, "operand_dtype");
      !operandDtype.empty() && operandDtype != "bf16" && operandDtype != "f16")
    return invalidArgument("operand_dtype is \"{}\", expected bf16 or f16", operandDtype);
  return std::vector<TensorType>{{inputs[0].dtype, {rows, channels / 3}},
                                 {inputs[0].dtype, {rows, channels / 3 / head}}};
}

Inferred inferAttentionGrad(Types inputs, const Attrs& attrs) {
  LOCKSTEP_TRY(wantRows(inputs, 1));
  LOCKSTEP_ASSIGN(const std::vector<TensorType> forward,
                  inferAttention(inputs.subspan(1, 1), attrs));
  LOCKSTEP_TRY(wantType(inputs, 0, forward[0]));
  LOCKSTEP_TRY(wantType(inputs, 2, forward[0]));
  LOCKSTEP_TRY(wantType(inputs, 3, forward[1]));
  return std::vector<TensorType>{inputs[1]};
}

Grads gradAttention(GradBuilder& build, const Node& node, std::span<const ValueId> dy) {
  if (dy[1] >= 0)
    return invalidArgument(
        "the sums of {} take part in the loss; only its result can be "
        "differentiated",
        node.name);
  LOCKSTEP_ASSIGN(
      const ValueId dx,
      build.emit(Op::kAttentionGrad, "x", {dy[0], node.inputs[0], node.outputs[0], node.outputs[1]},
                 node.attrs));
  return std::vector<ValueId>{dx};
}

// Returns the cuts of `split` times numerator over denominator, or nothing if a cut falls inside a
// sample or a head.
std::optional<AxisPlacement> scaled(AxisPlacement split, std::int64_t numerator,
                                    std::int64_t denominator) {
  for (std::int64_t& cut : split.cuts) {
    if (cut * numerator % denominator != 0) return std::nullopt;
    cut = cut * numerator / denominator;
  }
  return split;
}

struct Heads {
  AxisPlacement qkv, y, lse;
};
std::optional<Heads> placeHeads(const Node& node, const AxisPlacement& qkv) {
  if (isReplicated(qkv)) return Heads{};
  const std::int64_t tokens = intAttr(node.attrs, "tokens"), head = intAttr(node.attrs, "head");
  if (isSplit(qkv, 0) && scaled(qkv, 1, tokens)) return Heads{qkv, qkv, qkv};
  if (!isSplit(qkv, 1)) return std::nullopt;
  const auto heads = scaled(qkv, 1, 3 * head);
  if (!heads) return std::nullopt;
  return Heads{qkv, *scaled(*heads, head, 1), *heads};
}

Placing placeAttention(const Node& node, Places inputs, Types, Types) {
  const auto heads = placeHeads(node, inputs[0]);
  if (!heads) return mustReplicate(0);
  return placedAt({heads->y, heads->lse});
}
Placing placeAttentionGrad(const Node& node, Places inputs, Types, Types) {
  const Heads heads = placeHeads(node, inputs[1]).value_or(Heads{});
  const AxisPlacement* wanted[] = {&heads.y, &heads.qkv, &heads.y, &heads.lse};
  for (std::size_t i = 0; i < 4; ++i)
    if (inputs[i] != *wanted[i]) return mustBe(i, *wanted[i]);
  return placedAt({heads.qkv});
}

// Scores and their use: four operations for each pair of tokens and channel, half of the pairs
// where causal; the backward pass makes five products of the forward pass's two.
double pairFlops(const Node& node, const TensorType& y) {
  const double pairs =
      static_cast<double>(y.count()) * static_cast<double>(intAttr(node.attrs, "tokens"));
  return 4 * pairs * (intAttr(node.attrs, "causal") != 0 ? 0.5 : 1.0);
}
OpCost costAttention(const Node& node, Types inputs, Types outputs) {
  return {pairFlops(node, outputs[0]), movedBytes(inputs, outputs)};
}
OpCost costAttentionGrad(const Node& node, Types inputs, Types outputs) {
  return {2.5 * pairFlops(node, inputs[0]), movedBytes(inputs, outputs)};
}

// ---- Repeated rows

Inferred inferRepeatRows(Types inputs, const Attrs& attrs) {
  LOCKSTEP_TRY(wantFloat(inputs, 0));
  LOCKSTEP_TRY(wantRank(inputs, 0, 1, "one dimension"));
  const std::int64_t times = intAttr(attrs, "times");
  if (times < 1 || times > kMaxCount / std::max<std::int64_t>(inputs[0].shape[0], 1))
    return invalidArgument("times is {}, expected at least 1", times);
  return std::vector<TensorType>{{inputs[0].dtype, {inputs[0].shape[0] * times}}};
}
Placing placeRepeatRows(const Node& node, Places inputs, Types, Types) {
  if (!isSplit(inputs[0])) return placedAt({inputs[0]});
  return placedAt({*scaled(inputs[0], intAttr(node.attrs, "times"), 1)});
}

OpCost costGather(const Node&, Types, Types outputs) { return {0, 2 * outputs[0].bytes()}; }
OpCost costScatter(const Node&, Types inputs, Types outputs) {
  return {static_cast<double>(inputs[1].count()), 2 * inputs[1].bytes() + outputs[0].bytes()};
}
OpCost costNorm(const Node&, Types inputs, Types outputs) {
  return {8.0 * static_cast<double>(inputs[0].count()), movedBytes(inputs, outputs)};
}

constexpr AttrInfo kFirst{"first", AttrKind::kInt, false};
constexpr AttrInfo kLocal{"local", AttrKind::kInt, false};
constexpr AttrInfo kAxis{"axis", AttrKind::kText, false};
constexpr AttrInfo kStride{"stride", AttrKind::kInt, false};

}  // namespace

std::vector<OpInfo> sequenceOps() {
  const std::vector<AttrInfo> attention{{"tokens", AttrKind::kInt},
                                        {"head", AttrKind::kInt},
                                        {"causal", AttrKind::kInt},
                                        {"operand_dtype", AttrKind::kText, false}};
  // clang-format off
  return {
      {.op = Op::kEmbedding, .name = "embedding", .minInputs = 2, .maxInputs = 2,
       .attrs = {kFirst, kLocal, kAxis, kStride}, .infer = inferEmbedding,
       .gradient = gradEmbedding, .place = placeEmbedding, .cost = costGather,
       .costlyToRecompute = true, .partOffset = {PartOffset::Unit::kIndices, 0, 0}},
      {.op = Op::kEmbeddingGrad, .name = "embedding-grad", .minInputs = 2, .maxInputs = 2,
       .attrs = {kFirst, kLocal, {"shape", AttrKind::kShape}, kAxis, kStride},
       .infer = inferEmbeddingGrad, .place = placeEmbeddingGrad, .cost = costScatter,
       .partOffset = {PartOffset::Unit::kIndices, -1, 0}},
      {.op = Op::kUnique, .name = "unique", .minInputs = 1, .maxInputs = 1, .outputs = 3,
       .attrs = {{"cuts", AttrKind::kList}, {"shape", AttrKind::kShape}}, .infer = inferUnique,
       .place = placeUnique, .cost = costUnique},
      {.op = Op::kCombineRows, .name = "combine-rows", .minInputs = 2, .maxInputs = 2, .outputs = 3,
       .inPlace = {0, -1, -1}, .infer = inferCombineRows, .place = placeCombineRows,
       .cost = costElementwise},
      {.op = Op::kLayerNorm, .name = "layer-norm", .minInputs = 3, .maxInputs = 3, .outputs = 3,
       .attrs = {{"eps", AttrKind::kNumber}}, .infer = inferLayerNorm, .gradient = gradLayerNorm,
       .place = placeLayerNorm, .cost = costNorm, .narrowOutput = true},
      {.op = Op::kLayerNormGrad, .name = "layer-norm-grad", .minInputs = 5, .maxInputs = 5,
       .inPlace = {0}, .infer = inferLayerNormGrad, .place = placeLayerNormGrad, .cost = costNorm,
       .narrowInputs = 0b1},
      {.op = Op::kLayerNormWeightGrad, .name = "layer-norm-weight-grad", .minInputs = 4,
       .maxInputs = 4, .outputs = 2, .infer = inferLayerNormWeightGrad,
       .place = placeLayerNormWeightGrad, .cost = costNorm, .narrowInputs = 0b1},
      {.op = Op::kAttention, .name = "attention", .minInputs = 1, .maxInputs = 1, .outputs = 2,
       .attrs = attention, .infer = inferAttention, .gradient = gradAttention,
       .place = placeAttention, .cost = costAttention, .narrowInputs = 0b1, .narrowOutput = true,
       .stored = OpInfo::Stored::kNarrow, .costlyToRecompute = true},
      {.op = Op::kAttentionGrad, .name = "attention-grad", .minInputs = 4, .maxInputs = 4,
       .attrs = attention, .infer = inferAttentionGrad, .place = placeAttentionGrad,
       .cost = costAttentionGrad, .narrowInputs = 0b111, .narrowOutput = true,
       .stored = OpInfo::Stored::kNarrow},
      {.op = Op::kRepeatRows, .name = "repeat-rows", .minInputs = 1, .maxInputs = 1,
       .attrs = {{"times", AttrKind::kInt}}, .infer = inferRepeatRows, .place = placeRepeatRows,
       .cost = costMove},
  };
  // clang-format on
}

}  // namespace lockstep::ir::rules
