#include "engine/ir/graph.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "engine/ir/ops.h"

namespace lockstep::ir {
namespace {

constexpr std::array<std::string_view, 6> kPhaseNames = {"init",     "data",      "forward",
                                                         "backward", "optimizer", "watch"};

std::string_view kindText(AttrKind kind) {
  switch (kind) {
    case AttrKind::kInt:
      return "an integer";
    case AttrKind::kNumber:
      return "a finite number";
    case AttrKind::kText:
      return "a text, not empty";
    case AttrKind::kList:
      return "a list of integers";
    case AttrKind::kShape:
      return "a shape";
    case AttrKind::kDType:
      return "a type: f32, f64, bf16, f16, i32, i64 or u8";
  }
  return "";
}

bool fits(AttrKind kind, bool required, const Attr& attr) {
  const auto* text = std::get_if<std::string>(&attr);
  switch (kind) {
    case AttrKind::kInt:
      return std::holds_alternative<std::int64_t>(attr);
    case AttrKind::kNumber:
      return std::holds_alternative<double>(attr) && std::isfinite(std::get<double>(attr));
    case AttrKind::kText:
      return text && (!text->empty() || !required);
    case AttrKind::kDType:
      return text && dtypeFromName(*text);
    case AttrKind::kList:
    case AttrKind::kShape:
      return std::holds_alternative<std::vector<std::int64_t>>(attr);
  }
  return false;
}

Status checkAttrs(const OpInfo& row, Attrs& attrs) {
  for (const AttrInfo& expected : row.attrs) {
    const auto it = attrs.find(expected.name);
    if (it == attrs.end()) {
      if (expected.required)
        return invalidArgument("attribute {} is missing, expected {}", expected.name,
                               kindText(expected.kind));
      continue;
    }
    if (const auto* whole = std::get_if<std::int64_t>(&it->second);
        whole && expected.kind == AttrKind::kNumber)
      it->second = static_cast<double>(*whole);
    if (!fits(expected.kind, expected.required, it->second))
      return invalidArgument("attribute {} is wrong, expected {}", expected.name,
                             kindText(expected.kind));
    if (expected.kind == AttrKind::kShape)
      LOCKSTEP_TRY(checkShape(std::get<std::vector<std::int64_t>>(it->second)));
  }
  for (const auto& [key, value] : attrs) {
    const bool known = std::any_of(row.attrs.begin(), row.attrs.end(),
                                   [&, &name = key](const AttrInfo& a) { return a.name == name; });
    if (known) continue;
    std::string list;
    for (const AttrInfo& a : row.attrs)
      list += fmt::format("{}{}", list.empty() ? "" : ", ", a.name);
    return invalidArgument("attribute {} is unknown, expected {}", key,
                           list.empty() ? "none" : list);
  }
  return {};
}

}  // namespace

std::string TensorType::text() const {
  return fmt::format("{}[{}]", dtypeName(dtype), shapeText(shape));
}

std::string_view phaseName(Phase phase) { return kPhaseNames[static_cast<std::size_t>(phase)]; }

std::optional<Phase> phaseFromName(std::string_view name) {
  for (std::size_t i = 0; i < kPhaseNames.size(); ++i)
    if (kPhaseNames[i] == name) return static_cast<Phase>(i);
  return std::nullopt;
}

Status checkShape(const Shape& shape) {
  if (shape.size() > kMaxRank)
    return invalidArgument("a shape has {} dimensions, expected at most {}", shape.size(),
                           kMaxRank);
  std::int64_t count = 1;
  for (std::int64_t extent : shape) {
    if (extent < 1) return invalidArgument("a shape has extent {}, expected at least 1", extent);
    if (extent > kMaxCount / count)
      return invalidArgument("a shape has more than {} elements", kMaxCount);
    count *= extent;
  }
  return {};
}

bool isName(std::string_view text) {
  constexpr std::string_view kOther = "_./+-";
  return !text.empty() && text.size() <= 256 && std::all_of(text.begin(), text.end(), [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           kOther.find(c) != std::string_view::npos;
  });
}

std::vector<TensorType> widened(Op op, std::span<const TensorType> inputs) {
  std::vector<TensorType> wide(inputs.begin(), inputs.end());
  const bool isDouble = std::any_of(inputs.begin(), inputs.end(), [](const TensorType& type) {
    return type.dtype == DType::kF64;
  });
  for (std::size_t i = 0; i < wide.size(); ++i)
    if (readsNarrow(op, i) && isNarrow(wide[i].dtype))
      wide[i].dtype = isDouble ? DType::kF64 : DType::kF32;
  return wide;
}

Result<std::vector<TensorType>> inferTypes(Op op, std::span<const TensorType> inputs,
                                           Attrs& attrs) {
  const OpInfo& row = info(op);
  LOCKSTEP_TRY(checkAttrs(row, attrs));
  const std::vector<TensorType> wide = widened(op, inputs);
  LOCKSTEP_ASSIGN(std::vector<TensorType> outputs, row.infer(wide, attrs));
  for (const TensorType& type : outputs) LOCKSTEP_TRY(checkShape(type.shape));
  if (const std::string_view stored = textAttr(attrs, kStored); !stored.empty()) {
    const auto dtype = dtypeFromName(stored);
    if (!dtype || !isNarrow(*dtype))
      return invalidArgument("{} is {}, expected bf16 or f16", kStored, stored);
    outputs[0].dtype = *dtype;
  }
  return outputs;
}

Result<NodeId> Graph::add(Op op, std::string name, std::vector<ValueId> inputs, Attrs attrs,
                          Phase phase, std::vector<NodeId> after) {
  const OpInfo& row = info(op);
  const auto id = static_cast<NodeId>(nodes_.size());
  auto fail = [&](Message why) { return invalidArgument("node {} ({}): {}", name, row.name, why); };
  if (nodes_.size() >= kMaxNodes) return fail(message("more than {} nodes", kMaxNodes));
  if (!isName(name)) return fail("not a name; expected letters, digits and _./+-");
  if (names_.contains(name)) return fail("another node has this name");
  const auto count = static_cast<int>(inputs.size());
  if (count < row.minInputs || (row.maxInputs >= 0 && count > row.maxInputs))
    return fail(row.minInputs == row.maxInputs
                    ? message("{} inputs, expected {}", count, row.minInputs)
                    : message("{} inputs, expected {} to {}", count, row.minInputs,
                              row.maxInputs < 0 ? "any number" : std::to_string(row.maxInputs)));
  std::vector<TensorType> types;
  for (ValueId input : inputs) {
    if (input < 0 || static_cast<std::size_t>(input) >= values_.size())
      return fail(message("input %{} does not exist before it", input));
    types.push_back(value(input).type);
  }
  std::sort(after.begin(), after.end());
  after.erase(std::unique(after.begin(), after.end()), after.end());
  if (!after.empty() && (after.front() < 0 || after.back() >= id))
    return fail("a control edge comes from a node that is not before it");
  Result<std::vector<TensorType>> outputs = inferTypes(op, types, attrs);
  if (!outputs.ok()) return fail(outputs.error().what);

  Node node;
  node.op = op;
  node.name = std::move(name);
  node.inputs = std::move(inputs);
  node.after = std::move(after);
  node.attrs = std::move(attrs);
  node.phase = phase;
  for (std::size_t i = 0; i < outputs->size(); ++i) {
    node.outputs.push_back(static_cast<ValueId>(values_.size()));
    values_.push_back({std::move((*outputs)[i]), id, static_cast<int>(i), std::nullopt});
  }
  names_.emplace(node.name, id);
  nodes_.push_back(std::move(node));
  return id;
}

const Node* Graph::find(std::string_view name) const {
  const auto it = names_.find(name);
  return it == names_.end() ? nullptr : &node(it->second);
}

}  // namespace lockstep::ir
