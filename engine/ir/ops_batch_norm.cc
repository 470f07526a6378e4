// Op table rows: batch norm in parts, so that ranks exchange only sums of a few numbers for each
// channel.
#include "engine/ir/ops_rules.h"

namespace lockstep::ir::rules {
namespace {

// What dimension 0 of an operand or result counts; kWhole is replicated, kSum a sum over samples.
enum class Per : std::uint8_t { kSample, kGroup, kWhole, kSum };

std::int64_t channelsOf(const TensorType& x) { return x.shape.back(); }

Status wantSamples(Types inputs, std::size_t index) {
  LOCKSTEP_TRY(wantFloat(inputs, index));
  if (inputs[index].shape.size() < 2)
    return wrongInput(inputs, index, "two dimensions or more, samples first and channels last");
  return {};
}
// f[G×width]; G divides the number of samples of x.
Status wantGroups(Types inputs, std::size_t index, const TensorType& x, std::int64_t width) {
  const Shape& shape = inputs[index].shape;
  if (inputs[index].dtype != x.dtype || shape.size() != 2 || shape[1] != width ||
      x.shape[0] % shape[0] != 0)
    return wrongInput(
        inputs, index,
        fmt::format("{} numbers for each of some groups of {} samples", width, x.shape[0]));
  return {};
}

Inferred inferMoments(Types inputs, const Attrs& attrs) {
  LOCKSTEP_TRY(wantSamples(inputs, 0));
  const TensorType& x = inputs[0];
  LOCKSTEP_TRY(wantType(inputs, 1, {x.dtype, {x.shape[0]}}));
  LOCKSTEP_TRY(wantType(inputs, 2, {x.dtype, {channelsOf(x)}}));
  const Shape shape = shapeAttr(attrs);
  if (shape.size() != 2 || shape[1] != 1 + 2 * channelsOf(x) || shape[0] < 1 ||
      x.shape[0] % shape[0] != 0)
    return invalidArgument(
        "shape is [{}], expected groups that divide {} samples, and 1 + 2·{} "
        "moments",
        shapeText(shape), x.shape[0], channelsOf(x));
  return std::vector<TensorType>{{x.dtype, shape}};
}

Inferred inferStatistics(Types inputs, const Attrs&) {
  LOCKSTEP_TRY(wantFloat(inputs, 0));
  LOCKSTEP_TRY(wantRank(inputs, 0, 2, "two dimensions, groups and moments"));
  LOCKSTEP_TRY(wantRank(inputs, 1, 1, "one dimension, channels"));
  const DType dtype = inputs[0].dtype;
  const std::int64_t groups = inputs[0].shape[0], channels = inputs[1].shape[0];
  LOCKSTEP_TRY(wantType(inputs, 0, {dtype, {groups, 1 + 2 * channels}}));
  LOCKSTEP_TRY(wantType(inputs, 1, {dtype, {channels}}));
  return std::vector<TensorType>{
      {dtype, {groups, channels}}, {dtype, {groups, channels}}, {dtype, {1 + 2 * channels}}};
}

Inferred inferBatchNorm(Types inputs, const Attrs&) {
  LOCKSTEP_TRY(wantSamples(inputs, 0));
  const TensorType& x = inputs[0];
  const TensorType channels{x.dtype, {channelsOf(x)}};
  LOCKSTEP_TRY(wantType(inputs, 1, channels));
  LOCKSTEP_TRY(wantType(inputs, 2, channels));
  LOCKSTEP_TRY(wantGroups(inputs, 3, x, channelsOf(x)));
  LOCKSTEP_TRY(wantType(inputs, 4, inputs[3]));
  if (inputs.size() == 6)
    return invalidArgument("w and moments come together, expected 5 or 7 operands");
  if (inputs.size() == 7) {
    LOCKSTEP_TRY(wantType(inputs, 5, {x.dtype, {x.shape[0]}}));
    LOCKSTEP_TRY(wantType(inputs, 6, {x.dtype, {inputs[3].shape[0], 1 + 2 * channelsOf(x)}}));
  }
  return std::vector<TensorType>{x};
}

Inferred inferWeightGrad(Types inputs, const Attrs&) {
  LOCKSTEP_TRY(wantSamples(inputs, 0));
  const TensorType& x = inputs[0];
  LOCKSTEP_TRY(wantType(inputs, 1, x));
  LOCKSTEP_TRY(wantGroups(inputs, 2, x, channelsOf(x)));
  LOCKSTEP_TRY(wantType(inputs, 3, inputs[2]));
  const TensorType channels{x.dtype, {channelsOf(x)}};
  return std::vector<TensorType>{
      channels, channels, {x.dtype, {inputs[2].shape[0], 2 * channelsOf(x)}}};
}

Inferred inferInputGrad(Types inputs, const Attrs&) {
  LOCKSTEP_TRY(wantSamples(inputs, 0));
  const TensorType& x = inputs[0];
  const std::int64_t channels = channelsOf(x);
  LOCKSTEP_TRY(wantType(inputs, 1, x));
  LOCKSTEP_TRY(wantType(inputs, 2, {x.dtype, {x.shape[0]}}));
  LOCKSTEP_TRY(wantType(inputs, 3, {x.dtype, {channels}}));
  LOCKSTEP_TRY(wantGroups(inputs, 4, x, 1 + 2 * channels));
  const std::int64_t groups = inputs[4].shape[0];
  LOCKSTEP_TRY(wantType(inputs, 5, {x.dtype, {groups, channels}}));
  LOCKSTEP_TRY(wantType(inputs, 6, {x.dtype, {groups, channels}}));
  LOCKSTEP_TRY(wantType(inputs, 7, {x.dtype, {groups, 2 * channels}}));
  return std::vector<TensorType>{x};
}

Inferred inferRunning(Types inputs, const Attrs&) {
  LOCKSTEP_TRY(wantFloat(inputs, 0));
  LOCKSTEP_TRY(wantRank(inputs, 0, 1, "one dimension, channels"));
  LOCKSTEP_TRY(wantType(inputs, 1, inputs[0]));
  LOCKSTEP_TRY(wantType(inputs, 2, {inputs[0].dtype, {1 + 2 * inputs[0].shape[0]}}));
  return std::vector<TensorType>(2, inputs[0]);
}

// dx includes the gradient through the statistics, so their own gradient is none.
Grads gradBatchNorm(GradBuilder& build, const Node& node, std::span<const ValueId> dy) {
  const auto& in = node.inputs;
  if (in.size() != 7)
    return invalidArgument(
        "{} takes statistics that are not its input's own; it cannot be "
        "differentiated",
        node.name);
  const Attrs attrs = node.attrs;
  std::vector<ValueId> grads(in.size(), -1);
  LOCKSTEP_ASSIGN(grads[1],
                  build.emit(Op::kBatchNormWeightGrad, "w", {dy[0], in[0], in[3], in[4]}, attrs));
  grads[2] = grads[1] + 1;  // outputs of a node have consecutive ids
  if (build.wants(in[0])) {
    LOCKSTEP_ASSIGN(
        grads[0],
        build.emit(Op::kBatchNormGrad, "x",
                   {dy[0], in[0], in[5], in[1], in[6], in[3], in[4], grads[1] + 2}, attrs));
  }
  return grads;
}

// Samples are split at group boundaries and groups alike; or there is one group with replicated
// statistics.
std::optional<AxisPlacement> groupsOf(const AxisPlacement& samples, std::int64_t batch,
                                      std::int64_t groups) {
  if (groups == 1 || isReplicated(samples)) return AxisPlacement{};
  AxisPlacement split = samples;
  for (std::int64_t& cut : split.cuts) {
    if (cut % (batch / groups) != 0) return std::nullopt;
    cut /= batch / groups;
  }
  return split;
}

// The first operand decides, unless another operand with a row for each sample is split.
Placing placeGrouped(Places inputs, std::int64_t batch, std::int64_t groups,
                     std::initializer_list<Per> operands, std::initializer_list<Per> results) {
  AxisPlacement samples;
  for (std::size_t i = 0; i < inputs.size() && isReplicated(samples); ++i)
    if (operands.begin()[i] == Per::kSample && isSplit(inputs[i], 0)) samples = inputs[i];
  const auto found = groupsOf(samples, batch, groups);
  if (!found) samples = {};
  AxisPlacement split = found.value_or(AxisPlacement{});
  AxisPlacement sum = isReplicated(samples) ? AxisPlacement{} : partialSum();
  const auto placed = [&](Per per) {
    switch (per) {
      case Per::kSample:
        return samples;
      case Per::kGroup:
        return split;
      case Per::kSum:
        return sum;
      case Per::kWhole:
        break;
    }
    return AxisPlacement{};
  };
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (const AxisPlacement wanted = placed(operands.begin()[i]); inputs[i] != wanted)
      return mustBe(i, wanted);
  std::vector<AxisPlacement> outputs;
  for (const Per per : results) outputs.push_back(placed(per));
  return placedAt(std::move(outputs));
}

Placing placeMoments(const Node&, Places inputs, Types types, Types outputs) {
  const std::int64_t groups = outputs[0].shape[0];
  return placeGrouped(inputs, types[0].shape[0], groups, {Per::kSample, Per::kSample, Per::kWhole},
                      {groups == 1 ? Per::kSum : Per::kGroup});
}
// A rank's sums over its groups are partial sums.
Placing placeStatistics(const Node&, Places inputs, Types, Types) {
  if (!isReplicated(inputs[1])) return mustReplicate(1);
  if (isSplit(inputs[0], 0)) return placedAt({inputs[0], inputs[0], partialSum()});
  if (!isReplicated(inputs[0])) return mustReplicate(0);
  return placedAt(std::vector<AxisPlacement>(3));
}
Placing placeBatchNorm(const Node&, Places inputs, Types types, Types) {
  using enum Per;
  if (inputs.size() == 5)
    return placeGrouped(inputs, types[0].shape[0], types[3].shape[0],
                        {kSample, kWhole, kWhole, kGroup, kGroup}, {kSample});
  return placeGrouped(inputs, types[0].shape[0], types[3].shape[0],
                      {kSample, kWhole, kWhole, kGroup, kGroup, kSample, kGroup}, {kSample});
}
Placing placeWeightGrad(const Node&, Places inputs, Types types, Types) {
  using enum Per;
  const std::int64_t groups = types[2].shape[0];
  return placeGrouped(inputs, types[0].shape[0], groups, {kSample, kSample, kGroup, kGroup},
                      {kSum, kSum, groups == 1 ? kSum : kGroup});
}
Placing placeInputGrad(const Node&, Places inputs, Types types, Types) {
  using enum Per;
  return placeGrouped(inputs, types[0].shape[0], types[4].shape[0],
                      {kSample, kSample, kSample, kWhole, kGroup, kGroup, kGroup, kGroup},
                      {kSample});
}
Placing placeRunning(const Node&, Places inputs, Types, Types) {
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (!isReplicated(inputs[i])) return mustReplicate(i);
  return placedAt(std::vector<AxisPlacement>(2));
}

// A few operations for each element of x.
OpCost costSamples(const Node&, Types inputs, Types outputs) {
  return {4.0 * static_cast<double>(inputs[0].count()), movedBytes(inputs, outputs)};
}

constexpr AttrInfo kEps{"eps", AttrKind::kNumber};

}  // namespace

std::vector<OpInfo> batchNormOps() {
  // clang-format off
  return {
      {.op = Op::kBatchMoments, .name = "batch-moments", .minInputs = 3, .maxInputs = 3,
       .attrs = {{"shape", AttrKind::kShape}}, .infer = inferMoments, .place = placeMoments,
       .cost = costSamples},
      {.op = Op::kBatchStatistics, .name = "batch-statistics", .minInputs = 2, .maxInputs = 2,
       .outputs = 3, .infer = inferStatistics, .place = placeStatistics, .cost = costSamples},
      {.op = Op::kBatchNorm, .name = "batch-norm", .minInputs = 5, .maxInputs = 7, .attrs = {kEps},
       .inPlace = {0}, .infer = inferBatchNorm, .gradient = gradBatchNorm, .place = placeBatchNorm,
       .cost = costSamples},
      {.op = Op::kBatchNormWeightGrad, .name = "batch-norm-weight-grad", .minInputs = 4,
       .maxInputs = 4, .outputs = 3, .attrs = {kEps}, .infer = inferWeightGrad,
       .place = placeWeightGrad, .cost = costSamples},
      {.op = Op::kBatchNormGrad, .name = "batch-norm-grad", .minInputs = 8, .maxInputs = 8,
       .attrs = {kEps}, .inPlace = {0}, .infer = inferInputGrad, .place = placeInputGrad,
       .cost = costSamples},
      {.op = Op::kRunningStatistics, .name = "running-statistics", .minInputs = 3, .maxInputs = 3,
       .outputs = 2, .attrs = {{"momentum", AttrKind::kNumber}}, .inPlace = {0, 1},
       .infer = inferRunning, .place = placeRunning, .cost = costSamples},
  };
  // clang-format on
}

}  // namespace lockstep::ir::rules
