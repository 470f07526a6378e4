#include "engine/ir/ops_rules.h"

#include <algorithm>

namespace lockstep::ir::rules {

Error wrongInput(Types inputs, std::size_t index, std::string_view expected) {
  return invalidArgument("input {} is {}, expected {}", index, inputs[index].text(), expected);
}

Status wantFloat(Types inputs, std::size_t index) {
  if (!isFloat(inputs[index].dtype)) return wrongInput(inputs, index, "a float type");
  return {};
}

Status wantRank(Types inputs, std::size_t index, std::size_t rank, std::string_view expected) {
  if (inputs[index].shape.size() != rank) return wrongInput(inputs, index, expected);
  return {};
}

Status wantType(Types inputs, std::size_t index, const TensorType& type) {
  if (inputs[index] != type) return wrongInput(inputs, index, type.text());
  return {};
}

Status wantAxis(const Attrs& attrs) {
  if (attrs.contains("axis") != attrs.contains("stride") || intAttr(attrs, "stride") < 0)
    return invalidArgument("axis and stride come together, stride not below 0");
  return {};
}

Status wantActivation(const Attrs& attrs) {
  if (const std::string_view act = textAttr(attrs, "act"); !act.empty() && act != "relu")
    return invalidArgument("act is \"{}\", expected \"\" or \"relu\"", act);
  return {};
}

Shape shapeAttr(const Attrs& attrs, std::string_view key) { return listAttr(attrs, key); }

DType dtypeAttr(const Attrs& attrs, std::string_view key) {
  return *dtypeFromName(textAttr(attrs, key));
}

Inferred inferSame(Types inputs, const Attrs&) {
  LOCKSTEP_TRY(wantFloat(inputs, 0));
  for (std::size_t i = 1; i < inputs.size(); ++i) LOCKSTEP_TRY(wantType(inputs, i, inputs[0]));
  return std::vector<TensorType>{inputs[0]};
}

AxisPlacement splitAt(int dim, const AxisPlacement& like) { return {Kind::kSplit, dim, like.cuts}; }

AxisPlacement partialSum() { return {Kind::kPartialSum, 0, {}}; }

Placing placedAt(std::vector<AxisPlacement> outputs) { return {std::move(outputs), -1, {}}; }

Placing mustBe(std::size_t input, AxisPlacement wanted) {
  return {{}, static_cast<int>(input), std::move(wanted)};
}

Placing placeSource(const Node&, Places, Types, Types outputs) {
  return placedAt(std::vector<AxisPlacement>(outputs.size()));
}

DType summedIn(DType factors) { return sizeOf(factors) == 2 ? DType::kF32 : factors; }

Placing placeElementwise(const Node&, Places inputs, Types, Types outputs) {
  const auto split =
      std::find_if(inputs.begin(), inputs.end(), [](const auto& p) { return isSplit(p); });
  const AxisPlacement common = split == inputs.end() ? AxisPlacement{} : *split;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i] != common) return mustBe(i, common);
  return placedAt(std::vector<AxisPlacement>(outputs.size(), common));
}

Placing placeLinear(const Node& node, Places inputs, Types inputTypes, Types outputs) {
  if (std::all_of(inputs.begin(), inputs.end(), isSum))
    return placedAt(std::vector<AxisPlacement>(outputs.size(), partialSum()));
  return placeElementwise(node, inputs, inputTypes, outputs);
}

std::int64_t movedBytes(Types inputs, Types outputs) {
  std::int64_t bytes = 0;
  for (const TensorType& type : inputs) bytes += type.bytes();
  for (const TensorType& type : outputs) bytes += type.bytes();
  return bytes;
}

OpCost costNothing(const Node&, Types, Types) { return {}; }

OpCost costMove(const Node&, Types inputs, Types outputs) {
  return {0, movedBytes(inputs, outputs)};
}

OpCost costElementwise(const Node&, Types inputs, Types outputs) {
  return {static_cast<double>(inputs[0].count()), movedBytes(inputs, outputs)};
}

Result<ValueId> throughActivation(GradBuilder& build, const Node& node, ValueId dy) {
  if (textAttr(node.attrs, "act").empty()) return dy;
  return build.emit(Op::kReluGrad, "act", {dy, node.outputs[0]}, {});
}

}  // namespace lockstep::ir::rules
