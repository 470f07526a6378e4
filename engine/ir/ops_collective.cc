// Op table rows: collectives, inserted by partition. Types are logical until localisation.
#include <algorithm>

#include "engine/ir/ops_rules.h"

namespace lockstep::ir {

std::string_view algorithmName(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::kDirect:
      return "direct";
    case Algorithm::kRing:
      return "ring";
    case Algorithm::kHalvingDoubling:
      return "halving-doubling";
    case Algorithm::kTree:
      return "tree";
    case Algorithm::kHierarchical:
      return "hierarchical";
  }
  return "";
}

std::optional<Algorithm> algorithmFromName(std::string_view name) {
  for (const Algorithm algorithm : kAlgorithms)
    if (algorithmName(algorithm) == name) return algorithm;
  return std::nullopt;
}

}  // namespace lockstep::ir

namespace lockstep::ir::rules {
namespace {

Inferred inferAllReduce(Types inputs, const Attrs& attrs) {
  const auto algorithm = algorithmFromName(textAttr(attrs, "algorithm", "direct"));
  if (!algorithm)
    return invalidArgument("algorithm is \"{}\", which is none", textAttr(attrs, "algorithm"));
  if ((algorithm == Algorithm::kHierarchical) != attrs.contains("hosts"))
    return invalidArgument("hosts come with algorithm \"hierarchical\", and only with it");
  if (const std::string_view op = textAttr(attrs, "op"); op != "sum" && op != "max")
    return invalidArgument("op is \"{}\", expected \"sum\" or \"max\"", op);
  return inferSame(inputs, attrs);
}

Status wantCuts(const std::vector<std::int64_t>& cuts) {
  bool ascending =
      cuts.size() >= 2 && cuts.front() == 0 && cuts.back() > 0 && cuts.back() <= kMaxCount;
  for (std::size_t i = 1; ascending && i < cuts.size(); ++i) ascending = cuts[i - 1] <= cuts[i];
  if (!ascending) return invalidArgument("cuts are not ascending from 0 to the extent");
  return {};
}

bool isPart(const std::vector<std::int64_t>& cuts, std::int64_t size) {
  for (std::size_t i = 1; i < cuts.size(); ++i)
    if (cuts[i] - cuts[i - 1] == size) return true;
  return false;
}

Inferred inferReduceScatter(Types inputs, const Attrs& attrs) {
  LOCKSTEP_TRY(wantFloat(inputs, 0));
  const std::vector<std::int64_t> cuts = listAttr(attrs, "cuts");
  LOCKSTEP_TRY(wantCuts(cuts));
  LOCKSTEP_TRY(wantType(inputs, 0, {inputs[0].dtype, {cuts.back()}}));
  const std::int64_t size = intAttr(attrs, "size");
  if (size != cuts.back() && (size < 1 || !isPart(cuts, size)))
    return invalidArgument("size is {}, expected one of the parts that the cuts make", size);
  return std::vector<TensorType>{{inputs[0].dtype, {size}}};
}

Inferred inferAllGather(Types inputs, const Attrs& attrs) {
  LOCKSTEP_TRY(wantRank(inputs, 0, 1, "one dimension"));
  const std::vector<std::int64_t> cuts = listAttr(attrs, "cuts");
  LOCKSTEP_TRY(wantCuts(cuts));
  if (inputs[0].shape[0] != cuts.back() && !isPart(cuts, inputs[0].shape[0]))
    return wrongInput(inputs, 0, "one of the parts that the cuts make");
  return std::vector<TensorType>{{inputs[0].dtype, {cuts.back()}}};
}

Inferred inferAllToAll(Types inputs, const Attrs& attrs) {
  LOCKSTEP_TRY(wantRank(inputs, 0, 1, "one dimension"));
  const std::int64_t ranks = intAttr(attrs, "ranks");
  if (ranks < 1 || inputs[0].count() % ranks != 0)
    return invalidArgument("ranks is {}, expected a divisor of {}", ranks, inputs[0].count());
  return std::vector<TensorType>{inputs[0]};
}

Inferred inferBroadcast(Types inputs, const Attrs& attrs) {
  if (const std::int64_t root = intAttr(attrs, "root"); root < 0)
    return invalidArgument("root is {}, expected a coordinate", root);
  return inferSame(inputs, attrs);
}

Status wantPeers(const Attrs& attrs) {
  if (const std::int64_t peer = intAttr(attrs, "peer"); peer < kPartner)
    return invalidArgument("peer is {}, expected a coordinate, or {} in a server session", peer,
                           kPartner);
  if (const std::int64_t count = intAttr(attrs, "count", 1); count < 1)
    return invalidArgument("count is {}, expected at least 1", count);
  return {};
}

Inferred inferSend(Types inputs, const Attrs& attrs) {
  LOCKSTEP_TRY(wantFloat(inputs, 0));
  LOCKSTEP_TRY(wantPeers(attrs));
  return std::vector<TensorType>{};
}

Inferred inferRecv(Types, const Attrs& attrs) {
  LOCKSTEP_TRY(wantPeers(attrs));
  if (!isFloat(dtypeAttr(attrs)))
    return invalidArgument("dtype is {}, expected a float type", textAttr(attrs, "dtype"));
  const TensorType type{dtypeAttr(attrs), shapeAttr(attrs)};
  if (attrs.contains("count")) return std::vector<TensorType>{type, type};
  return std::vector<TensorType>{type};
}

// Inputs: table rows x, and the number of rows for each part.
Status wantCounted(Types inputs, std::size_t x, std::size_t counts) {
  if (inputs[x].shape.empty()) return wrongInput(inputs, x, "rows");
  LOCKSTEP_TRY(wantRank(inputs, counts, 1, "one dimension, counts of rows"));
  return wantType(inputs, counts, {DType::kI32, inputs[counts].shape});
}

Inferred inferPush(Types inputs, const Attrs& attrs) {
  LOCKSTEP_TRY(wantCounted(inputs, 0, 1));
  const std::int64_t part = intAttr(attrs, "part"), count = intAttr(attrs, "count");
  const std::int64_t rows = intAttr(attrs, "rows");
  if (part < 0 || part >= inputs[1].count())
    return invalidArgument("part is {}, expected one of {}", part, inputs[1].count());
  if (count < 1 || rows < 1) return invalidArgument("{} rows of {} workers", rows, count);
  TensorType pushed = inputs[0];
  pushed.shape[0] = rows;
  return std::vector<TensorType>{pushed, {DType::kI32, {count}}};
}

Inferred inferPull(Types inputs, const Attrs&) {
  LOCKSTEP_TRY(wantCounted(inputs, 0, 1));
  LOCKSTEP_TRY(wantType(inputs, 0, {DType::kI32, {inputs[0].count()}}));
  if (std::ssize(inputs) != 2 + 2 * inputs[1].count())
    return wrongInput(inputs, 1,
                      fmt::format("a count for each of {} parts", inputs.size() / 2 - 1));
  for (std::size_t i = 2; i < inputs.size(); i += 2) {
    LOCKSTEP_TRY(wantFloat(inputs, i));
    LOCKSTEP_TRY(wantRank(inputs, i, 2, "two dimensions, rows and channels"));
    LOCKSTEP_TRY(wantCounted(inputs, i, i + 1));
    LOCKSTEP_TRY(wantType(inputs, i, {inputs[2].dtype, {inputs[i].shape[0], inputs[2].shape[1]}}));
  }
  return std::vector<TensorType>{{inputs[2].dtype, {inputs[0].count(), inputs[2].shape[1]}}};
}

// The gradients of rows are pushed back to the servers they were pulled from.
Grads gradPull(GradBuilder& build, const Node& node, std::span<const ValueId> dy) {
  std::vector<ValueId> grads(node.inputs.size(), -1);
  for (std::size_t i = 2; i < node.inputs.size(); i += 2) {
    if (!build.wants(node.inputs[i])) continue;
    const auto part = static_cast<std::int64_t>(i / 2 - 1);
    LOCKSTEP_ASSIGN(grads[i],
                    build.emit(Op::kPush, fmt::format("part{}", part), {dy[0], node.inputs[1]},
                               {{"part", part},
                                {"count", build.type(node.inputs[i + 1]).count()},
                                {"rows", build.type(node.inputs[i]).shape[0]}},
                               node.inputs[i]));
  }
  return grads;
}

Inferred inferSendRows(Types inputs, const Attrs& attrs) {
  LOCKSTEP_TRY(wantCounted(inputs, 0, 1));
  LOCKSTEP_TRY(wantPeers(attrs));
  const std::int64_t part = intAttr(attrs, "part");
  if (part < 0 || part > inputs[1].count() - intAttr(attrs, "count"))
    return invalidArgument("part is {}, expected one of {}", part, inputs[1].count());
  if (intAttr(attrs, "parts", 1) < 1) return invalidArgument("parts is not positive");
  return std::vector<TensorType>{};
}

Inferred inferRecvRows(Types, const Attrs& attrs) {
  LOCKSTEP_TRY(wantPeers(attrs));
  const TensorType rows{dtypeAttr(attrs), shapeAttr(attrs)};
  if (rows.shape.empty()) return invalidArgument("shape has no rows");
  if (intAttr(attrs, "parts", 1) < 1) return invalidArgument("parts is not positive");
  return std::vector<TensorType>{rows, {DType::kI32, {intAttr(attrs, "count")}}};
}

// Inputs on servers are replicated; a worker's rows are split like its ids.
Placing placePush(const Node&, Places, Types, Types) { return placedAt({{}, {}}); }
Placing placePull(const Node&, Places inputs, Types, Types) {
  for (std::size_t i = 1; i < inputs.size(); ++i)
    if (!isReplicated(inputs[i])) return mustReplicate(i);
  return placedAt({inputs[0]});
}

OpCost costRows(const Node& node, Types inputs, Types outputs) {
  const std::int64_t parts = intAttr(node.attrs, "parts", 1);
  const std::int64_t counts = 4 * intAttr(node.attrs, "count", 1);
  return {0, ((inputs.empty() ? outputs[0] : inputs[0]).bytes() + parts - 1) / parts + counts};
}

// A sum over one axis keeps a split or partial sum along another.
Placing placeReduction(const Node& node, Places inputs, Types inputTypes, Types outputs) {
  if (textAttr(node.attrs, "op", "sum") == "max")
    return placeElementwise(node, inputs, inputTypes, outputs);
  return placeLinear(node, inputs, inputTypes, outputs);
}
// A flat group is sharded along one axis only.
Placing placeParts(const Node&, Places inputs, Types, Types) {
  if (isSplit(inputs[0])) return mustReplicate(0);
  return placedAt({inputs[0]});
}

// Messages accept any placement on other axes.
Placing placeSend(const Node&, Places, Types, Types) { return placedAt({}); }

// Bytes are the payload of this rank, not memory traffic.
OpCost costPayload(const Node&, Types inputs, Types outputs) {
  return {0, std::max(inputs.empty() ? 0 : inputs[0].bytes(),
                      outputs.empty() ? 0 : outputs[0].bytes())};
}

OpCost costPeers(const Node& node, Types inputs, Types outputs) {
  OpCost cost = costPayload(node, inputs, outputs);
  cost.bytes *= intAttr(node.attrs, "count", 1);
  if (!outputs.empty())
    cost.flops = static_cast<double>(outputs[0].count() * intAttr(node.attrs, "count"));
  return cost;
}

constexpr AttrInfo kAxis{"axis", AttrKind::kText};
constexpr AttrInfo kCuts{"cuts", AttrKind::kList};
constexpr AttrInfo kPeer{"peer", AttrKind::kInt};
constexpr AttrInfo kCount{"count", AttrKind::kInt};
constexpr AttrInfo kParts{"parts", AttrKind::kInt, false};

}  // namespace

std::vector<OpInfo> collectiveOps() {
  // clang-format off
  return {
      {.op = Op::kAllReduce, .name = "all-reduce", .minInputs = 1, .maxInputs = 1,
       .isCollective = true,
       .attrs = {kAxis, {"op", AttrKind::kText}, {"algorithm", AttrKind::kText, false},
                 {"hosts", AttrKind::kList, false}}, .inPlace = {0}, .infer = inferAllReduce,
       .place = placeReduction, .cost = costPayload, .movesOnly = true},
      {.op = Op::kReduceScatter, .name = "reduce-scatter", .minInputs = 1, .maxInputs = 1,
       .isCollective = true, .attrs = {kAxis, kCuts, {"size", AttrKind::kInt}},
       .infer = inferReduceScatter, .place = placeParts, .cost = costPayload, .movesOnly = true},
      {.op = Op::kAllGather, .name = "all-gather", .minInputs = 1, .maxInputs = 1,
       .isCollective = true, .attrs = {kAxis, kCuts}, .infer = inferAllGather, .place = placeParts,
       .cost = costPayload, .movesOnly = true},
      {.op = Op::kAllToAll, .name = "all-to-all", .minInputs = 1, .maxInputs = 1,
       .isCollective = true, .attrs = {kAxis, {"ranks", AttrKind::kInt}}, .infer = inferAllToAll,
       .place = placeParts, .cost = costPayload, .movesOnly = true},
      {.op = Op::kBroadcast, .name = "broadcast", .minInputs = 1, .maxInputs = 1,
       .isCollective = true, .attrs = {kAxis, {"root", AttrKind::kInt}}, .inPlace = {0},
       .infer = inferBroadcast, .place = placeLinear, .cost = costPayload},
      {.op = Op::kSend, .name = "send", .minInputs = 1, .maxInputs = 1, .outputs = 0,
       .isCollective = true, .attrs = {kAxis, kPeer}, .infer = inferSend, .place = placeSend,
       .cost = costPayload},
      {.op = Op::kRecv, .name = "recv", .minInputs = 0, .maxInputs = 0, .isCollective = true,
       .attrs = {kAxis, kPeer, {"dtype", AttrKind::kDType}, {"shape", AttrKind::kShape}},
       .infer = inferRecv, .place = placeSource, .cost = costPayload},
      {.op = Op::kMulticast, .name = "multicast", .minInputs = 1, .maxInputs = 1, .outputs = 0,
       .isCollective = true, .attrs = {kAxis, kCount}, .infer = inferSend, .place = placeSend,
       .cost = costPeers},
      {.op = Op::kRecvSum, .name = "recv-sum", .minInputs = 0, .maxInputs = 0, .outputs = 2,
       .isCollective = true,
       .attrs = {kAxis, kCount, {"dtype", AttrKind::kDType}, {"shape", AttrKind::kShape}},
       .infer = inferRecv, .place = placeSource, .cost = costPeers},
      {.op = Op::kPush, .name = "push", .minInputs = 2, .maxInputs = 2, .outputs = 2,
       .isCollective = true, .attrs = {{"part", AttrKind::kInt}, kCount, {"rows", AttrKind::kInt}},
       .infer = inferPush, .place = placePush, .cost = costNothing},
      {.op = Op::kPull, .name = "pull", .minInputs = 4, .maxInputs = -1, .isCollective = true,
       .infer = inferPull, .gradient = gradPull, .place = placePull, .cost = costNothing},
      {.op = Op::kSendRows, .name = "send-rows", .minInputs = 2, .maxInputs = 2, .outputs = 0,
       .isCollective = true,
       .attrs = {kAxis, kPeer, kCount, {"part", AttrKind::kInt, false}, kParts},
       .infer = inferSendRows, .place = placeSend, .cost = costRows},
      {.op = Op::kRecvRows, .name = "recv-rows", .minInputs = 0, .maxInputs = 0, .outputs = 2,
       .isCollective = true,
       .attrs = {kAxis, kPeer, kCount, kParts, {"dtype", AttrKind::kDType},
                 {"shape", AttrKind::kShape}}, .infer = inferRecvRows, .place = placeSource,
       .cost = costRows},
  };
  // clang-format on
}

}  // namespace lockstep::ir::rules
