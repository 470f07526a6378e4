// Op table rows: gradient compression.
#include <algorithm>

#include "engine/ir/ops_rules.h"

namespace lockstep::ir {

std::optional<Coding> codingFromName(std::string_view name) {
  for (const Coding coding : {Coding::kFp16, Coding::kBf16, Coding::kInt8, Coding::kTopK})
    if (codingName(coding) == name) return coding;
  return std::nullopt;
}

std::string_view codingName(Coding coding) {
  switch (coding) {
    case Coding::kFp16:
      return "fp16";
    case Coding::kBf16:
      return "bf16";
    case Coding::kInt8:
      return "int8";
    case Coding::kTopK:
      return "top-k";
  }
  return "";
}

std::int64_t payloadBytes(Coding coding, std::int64_t count, std::int64_t kept) {
  switch (coding) {
    case Coding::kFp16:
    case Coding::kBf16:
      return 2 * count;
    case Coding::kInt8:
      return (count + kScaledTogether - 1) / kScaledTogether * 4 + (count + 3) / 4 * 4;
    case Coding::kTopK:
      return 8 * kept;
  }
  return 0;
}

}  // namespace lockstep::ir

namespace lockstep::ir::rules {
namespace {

Result<std::int64_t> payloadOf(const Attrs& attrs, const TensorType& type) {
  const auto coding = codingFromName(textAttr(attrs, "coding"));
  if (!coding)
    return invalidArgument("coding is \"{}\", expected fp16, bf16, int8 or top-k",
                           textAttr(attrs, "coding"));
  if (type.shape.size() != 1)
    return invalidArgument("{} is coded, expected one dimension", type.text());
  const std::int64_t kept = intAttr(attrs, "kept");
  if (*coding == Coding::kTopK && (kept < 1 || kept > type.count() || type.count() > kMaxKeptFrom))
    return invalidArgument("kept is {}, expected 1 to {} of at most {}", kept, type.count(),
                           kMaxKeptFrom);
  return payloadBytes(*coding, type.count(), kept);
}

Inferred inferEncode(Types inputs, const Attrs& attrs) {
  LOCKSTEP_TRY(inferSame(inputs, attrs).status());
  const std::int64_t parts = intAttr(attrs, "parts", 1);
  if (parts < 1 || inputs[0].count() % parts != 0)
    return invalidArgument("parts is {}, expected a divisor of {}", parts, inputs[0].count());
  TensorType part = inputs[0];
  if (part.shape.size() == 1) part.shape[0] /= parts;
  LOCKSTEP_ASSIGN(const std::int64_t bytes, payloadOf(attrs, part));
  return std::vector<TensorType>{inputs[0], {DType::kU8, {parts * bytes}}};
}

Inferred inferDecodeSum(Types inputs, const Attrs& attrs) {
  const TensorType sum{dtypeAttr(attrs), shapeAttr(attrs)};
  if (!isFloat(sum.dtype))
    return invalidArgument("dtype is {}, expected a float type", dtypeName(sum.dtype));
  LOCKSTEP_ASSIGN(const std::int64_t bytes, payloadOf(attrs, sum));
  if (inputs[0].dtype != DType::kU8 || inputs[0].count() < bytes || inputs[0].count() % bytes != 0)
    return wrongInput(inputs, 0, fmt::format("u8, a multiple of {} bytes", bytes));
  return std::vector<TensorType>{sum};
}

// Coding is not linear: operands are replicated.
Placing placeCoding(const Node&, Places inputs, Types, Types outputs) {
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (!isReplicated(inputs[i])) return mustReplicate(i);
  return placedAt(std::vector<AxisPlacement>(outputs.size()));
}

OpCost costEncode(const Node&, Types inputs, Types outputs) {
  return {4.0 * static_cast<double>(inputs[0].count()), movedBytes(inputs, outputs)};
}
OpCost costDecodeSum(const Node& node, Types inputs, Types outputs) {
  const std::int64_t payload = payloadOf(node.attrs, outputs[0]).value();
  const std::int64_t ranks = inputs[0].count() / payload;
  return {2.0 * static_cast<double>(outputs[0].count() * ranks), movedBytes(inputs, outputs)};
}

constexpr AttrInfo kCoding{"coding", AttrKind::kText};
constexpr AttrInfo kKept{"kept", AttrKind::kInt, false};

}  // namespace

std::vector<OpInfo> compressionOps() {
  // clang-format off
  return {
      {.op = Op::kEncode, .name = "encode", .minInputs = 2, .maxInputs = 2, .outputs = 2,
       .attrs = {kCoding, kKept, {"parts", AttrKind::kInt, false}}, .inPlace = {1, -1},
       .infer = inferEncode, .place = placeCoding, .cost = costEncode, .movesOnly = true},
      {.op = Op::kDecodeSum, .name = "decode-sum", .minInputs = 1, .maxInputs = 1,
       .attrs = {kCoding, kKept, {"dtype", AttrKind::kDType}, {"shape", AttrKind::kShape}},
       .infer = inferDecodeSum, .place = placeCoding, .cost = costDecodeSum, .movesOnly = true},
  };
  // clang-format on
}

}  // namespace lockstep::ir::rules
