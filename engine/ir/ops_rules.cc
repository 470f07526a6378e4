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

Shape shapeAttr(const Attrs& attrs, std::string_view key) {
  return listAttr(attrs, key);
}

DType dtypeAttr(const Attrs& attrs, std::string_view key) {
  return *dtypeFromName(textAttr(attrs, key));
}

Inferred inferSame(Types inputs, const Attrs&) {
  LOCKSTEP_TRY(wantFloat(inputs, 0));
  for (std::size_t i = 1; i < inputs.size(); ++i) LOCKSTEP_TRY(wantType(inputs, i, inputs[0]));
  return std::vector<TensorType>{inputs[0]};
}

AxisPlacement splitAt(int dim, const AxisPlacement& like) {
  return {Kind::kSplit, dim, like.cuts};
}

AxisPlacement partialSum() {
  return {Kind::kPartialSum, 0, {}};
}

Error mustReplicate(const Node& node, Places inputs, std::size_t index) {
  Placement placement;
  placement.axes["axis"] = inputs[index];
  Error error =
      makeError(Code::kFailedPrecondition, "{}: {} cannot work on input {} as it is placed ({})",
                node.name, info(node.op).name, index, placement.text());
  error.next = fmt::format("input {}", index);
  return error;
}

Placed placeSource(const Node&, Places, Types, Types outputs) {
  return std::vector<AxisPlacement>(outputs.size());
}

Placed placeElementwise(const Node& node, Places inputs, Types, Types outputs) {
  const bool replicated = std::all_of(inputs.begin(), inputs.end(), isReplicated);
  const bool split =
      isSplit(inputs[0]) &&
      std::all_of(inputs.begin(), inputs.end(), [&](const auto& p) { return p == inputs[0]; });
  if (replicated || split) return std::vector<AxisPlacement>(outputs.size(), inputs[0]);
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (!isReplicated(inputs[i]) && !isSplit(inputs[i])) return mustReplicate(node, inputs, i);
  for (std::size_t i = 0;; ++i)
    if (isSplit(inputs[i])) return mustReplicate(node, inputs, i);
}

Placed placeLinear(const Node& node, Places inputs, Types inputTypes, Types outputs) {
  if (std::all_of(inputs.begin(), inputs.end(), isSum))
    return std::vector<AxisPlacement>(outputs.size(), partialSum());
  return placeElementwise(node, inputs, inputTypes, outputs);
}

std::int64_t movedBytes(Types inputs, Types outputs) {
  std::int64_t bytes = 0;
  for (const TensorType& type : inputs) bytes += type.bytes();
  for (const TensorType& type : outputs) bytes += type.bytes();
  return bytes;
}

OpCost costNothing(const Node&, Types, Types) {
  return {};
}

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
