// Op table rows: sources and sinks, initial values, shapes.
#include <algorithm>

#include "engine/ir/ops_rules.h"

namespace lockstep::ir::rules {
namespace {

Inferred inferDeclared(Types, const Attrs& attrs) {
  return std::vector<TensorType>{{dtypeAttr(attrs), shapeAttr(attrs)}};
}

Inferred inferDeclaredFloat(Types, const Attrs& attrs) {
  if (!isFloat(dtypeAttr(attrs)))
    return invalidArgument("dtype is {}, expected a float type", textAttr(attrs, "dtype"));
  return std::vector<TensorType>{{dtypeAttr(attrs), shapeAttr(attrs)}};
}

Inferred inferRandom(Types inputs, const Attrs& attrs) {
  const std::string_view kind = textAttr(attrs, "kind");
  if (kind != "uniform" && kind != "normal")
    return invalidArgument("kind is \"{}\", expected \"uniform\" or \"normal\"", kind);
  LOCKSTEP_TRY(wantAxis(attrs));
  if (attrs.contains("block") != attrs.contains("pitch") || intAttr(attrs, "block", 1) < 1 ||
      intAttr(attrs, "pitch", 1) < intAttr(attrs, "block", 1) || intAttr(attrs, "first") < 0)
    return invalidArgument("block and pitch come together, block from 1 to pitch, first from 0");
  return inferDeclaredFloat(inputs, attrs);
}

Inferred inferStore(Types, const Attrs&) { return std::vector<TensorType>{}; }
Inferred inferResult(Types inputs, const Attrs&) {
  LOCKSTEP_TRY(wantFloat(inputs, 0));
  return std::vector<TensorType>{};
}

Inferred inferReshape(Types inputs, const Attrs& attrs) {
  Shape shape = shapeAttr(attrs);
  if (elementCount(shape) != inputs[0].count())
    return wrongInput(
        inputs, 0,
        fmt::format("{} elements for shape [{}]", elementCount(shape), shapeText(shape)));
  return std::vector<TensorType>{{inputs[0].dtype, std::move(shape)}};
}

Inferred inferFlatView(Types inputs, const Attrs& attrs) {
  LOCKSTEP_TRY(wantFloat(inputs, 0));
  LOCKSTEP_TRY(wantRank(inputs, 0, 1, "one dimension, a flat group"));
  Shape shape = shapeAttr(attrs);
  const std::int64_t offset = intAttr(attrs, "offset");
  const std::int64_t count = elementCount(shape);
  LOCKSTEP_TRY(wantAxis(attrs));
  if (offset < 0 || offset > inputs[0].count() - count)
    return invalidArgument("elements {} to {} lie outside input 0, {}", offset,
                           offset < kMaxCount ? offset + count : offset, inputs[0].text());
  return std::vector<TensorType>{{inputs[0].dtype, std::move(shape)}};
}

Inferred inferFlatten(Types inputs, const Attrs&) {
  std::int64_t count = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    LOCKSTEP_TRY(wantFloat(inputs, i));
    if (inputs[i].dtype != inputs[0].dtype)
      return wrongInput(inputs, i,
                        fmt::format("the type of input 0, {}", dtypeName(inputs[0].dtype)));
    count += inputs[i].count();
    if (count > kMaxCount) return invalidArgument("the group has more than {} elements", kMaxCount);
  }
  return std::vector<TensorType>{{inputs[0].dtype, {count}}};
}

// A split survives if each rank keeps its elements: the product of the dimensions before it is
// unchanged, and its extent is unchanged, or multiplied or divided evenly at every cut.
Placing placeReshape(const Node&, Places inputs, Types inputTypes, Types outputs) {
  if (!isSplit(inputs[0])) return placedAt({inputs[0]});
  const Shape& from = inputTypes[0].shape;
  const Shape& to = outputs[0].shape;
  const auto dim = static_cast<std::size_t>(inputs[0].dim);
  std::int64_t before = 1;
  for (std::size_t i = 0; i < dim; ++i) before *= from[i];
  std::int64_t product = 1;
  for (std::size_t i = 0; i < to.size() && product <= before; product *= to[i++]) {
    if (product != before || to[i] == 1) continue;
    AxisPlacement split = splitAt(static_cast<int>(i), inputs[0]);
    bool even = true;
    for (std::int64_t& cut : split.cuts) {
      even = even && cut * to[i] % from[dim] == 0;
      cut = cut * to[i] / from[dim];
    }
    if (even) return placedAt({std::move(split)});
  }
  return mustReplicate(0);
}

// Views of a flat group: the group is replicated or a partial sum.
Placing placeGroup(const Node&, Places inputs, Types, Types outputs) {
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (isSplit(inputs[i])) return mustReplicate(i);
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i] != inputs[0]) return mustReplicate(isReplicated(inputs[i]) ? 0 : i);
  return placedAt(std::vector<AxisPlacement>(outputs.size(), inputs[0]));
}

Placing placeSink(const Node&, Places inputs, Types, Types) {
  if (!isReplicated(inputs[0]) && !isSplit(inputs[0])) return mustReplicate(0);
  return placedAt({});
}

Grads gradReshape(GradBuilder& build, const Node& node, std::span<const ValueId> dy) {
  LOCKSTEP_ASSIGN(ValueId dx, build.emit(Op::kReshape, "x", {dy[0]},
                                         {{"shape", build.type(node.inputs[0]).shape}}));
  return std::vector<ValueId>{dx};
}

Grads gradFlatten(GradBuilder& build, const Node& node, std::span<const ValueId> dy) {
  std::vector<ValueId> grads;
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const TensorType type = build.type(node.inputs[i]);
    ValueId grad = -1;
    if (build.wants(node.inputs[i])) {
      LOCKSTEP_ASSIGN(grad, build.emit(Op::kFlatView, fmt::format("member{}", i), {dy[0]},
                                       {{"offset", offset}, {"shape", type.shape}}));
    }
    grads.push_back(grad);
    offset += type.count();
  }
  return grads;
}

constexpr AttrInfo kDTypeAttr{"dtype", AttrKind::kDType};
constexpr AttrInfo kShapeAttr{"shape", AttrKind::kShape};

}  // namespace

std::vector<OpInfo> sourceOps() {
  // clang-format off
  return {
      {.op = Op::kInput, .name = "input", .minInputs = 0, .maxInputs = 0,
       .attrs = {{"name", AttrKind::kText}, kDTypeAttr, kShapeAttr}, .infer = inferDeclared,
       .place = placeSource, .cost = costNothing},
      {.op = Op::kState, .name = "state", .minInputs = 0, .maxInputs = 0,
       .attrs = {{"state", AttrKind::kText}, kDTypeAttr, kShapeAttr}, .infer = inferDeclared,
       .place = placeSource, .cost = costNothing},
      {.op = Op::kStore, .name = "store", .minInputs = 1, .maxInputs = 1, .outputs = 0,
       .attrs = {{"state", AttrKind::kText}}, .infer = inferStore, .place = placeSink,
       .cost = costNothing, .movesOnly = true},
      {.op = Op::kResult, .name = "result", .minInputs = 1, .maxInputs = 1, .outputs = 0,
       .attrs = {{"name", AttrKind::kText}}, .infer = inferResult, .place = placeSink,
       .cost = costNothing},
      {.op = Op::kFill, .name = "fill", .minInputs = 0, .maxInputs = 0,
       .attrs = {kDTypeAttr, kShapeAttr, {"value", AttrKind::kNumber}}, .infer = inferDeclaredFloat,
       .place = placeSource, .cost = costMove},
      {.op = Op::kRandom, .name = "random", .minInputs = 0, .maxInputs = 0,
       .attrs = {kDTypeAttr, kShapeAttr, {"key", AttrKind::kInt}, {"kind", AttrKind::kText},
                 {"scale", AttrKind::kNumber}, {"block", AttrKind::kInt, false},
                 {"pitch", AttrKind::kInt, false}, {"first", AttrKind::kInt, false},
                 {"axis", AttrKind::kText, false}, {"stride", AttrKind::kInt, false}},
       .infer = inferRandom, .place = placeSource, .cost = costMove,
       .partOffset = {PartOffset::Unit::kElements}},
      {.op = Op::kReshape, .name = "reshape", .minInputs = 1, .maxInputs = 1, .isView = true,
       .attrs = {kShapeAttr}, .inPlace = {0}, .infer = inferReshape, .gradient = gradReshape,
       .place = placeReshape, .cost = costNothing, .movesOnly = true},
      {.op = Op::kFlatView, .name = "flat-view", .minInputs = 1, .maxInputs = 1, .isView = true,
       .attrs = {{"offset", AttrKind::kInt}, kShapeAttr, {"axis", AttrKind::kText, false},
                 {"stride", AttrKind::kInt, false}}, .inPlace = {0}, .infer = inferFlatView,
       .place = placeGroup, .cost = costNothing, .partOffset = {PartOffset::Unit::kView}},
      {.op = Op::kFlatten, .name = "flatten", .minInputs = 1, .maxInputs = -1, .isView = true,
       .inPlace = {0}, .infer = inferFlatten, .gradient = gradFlatten, .place = placeGroup,
       .cost = costNothing, .movesOnly = true},
  };
  // clang-format on
}

}  // namespace lockstep::ir::rules
