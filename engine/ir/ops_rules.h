// Shared rules of the op table's rows; ops.cc assembles the table from one list for each family.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "engine/ir/ops.h"

namespace lockstep::ir::rules {

using Types = std::span<const TensorType>;
using Inferred = Result<std::vector<TensorType>>;
using Places = std::span<const AxisPlacement>;
using Grads = Result<std::vector<ValueId>>;

std::vector<OpInfo> sourceOps();  // sources, sinks, initial values, shapes
std::vector<OpInfo> elementwiseOps();
std::vector<OpInfo> denseOps();
std::vector<OpInfo> imageOps();
std::vector<OpInfo> batchNormOps();
std::vector<OpInfo> sequenceOps();
std::vector<OpInfo> lossOps();
std::vector<OpInfo> optimizerOps();
std::vector<OpInfo> compressionOps();
std::vector<OpInfo> collectiveOps();

// ---- Shape rules. "input 1 is f32[3], expected …"
Error wrongInput(Types inputs, std::size_t index, std::string_view expected);
Status wantFloat(Types inputs, std::size_t index);
Status wantRank(Types inputs, std::size_t index, std::size_t rank, std::string_view expected);
Status wantType(Types inputs, std::size_t index, const TensorType& type);
Status wantAxis(const Attrs& attrs);        // axis and stride, both or neither
Status wantActivation(const Attrs& attrs);  // act: "" or "relu"
Shape shapeAttr(const Attrs& attrs, std::string_view key = "shape");
DType dtypeAttr(const Attrs& attrs, std::string_view key = "dtype");
// All inputs have one float type and shape, which is also the output's.
Inferred inferSame(Types inputs, const Attrs& attrs);

// ---- Placement rules.
using Kind = AxisPlacement::Kind;
inline bool isReplicated(const AxisPlacement& p) { return p.kind == Kind::kReplicated; }
inline bool isSplit(const AxisPlacement& p) { return p.kind == Kind::kSplit; }
inline bool isSplit(const AxisPlacement& p, int dim) { return isSplit(p) && p.dim == dim; }
inline bool isSum(const AxisPlacement& p) { return p.kind == Kind::kPartialSum; }
AxisPlacement splitAt(int dim, const AxisPlacement& like);  // with the cut-points of `like`
AxisPlacement partialSum();
Placing placedAt(std::vector<AxisPlacement> outputs);
Placing mustBe(std::size_t input, AxisPlacement wanted);
inline Placing mustReplicate(std::size_t input) { return mustBe(input, {}); }
Placing placeSource(const Node&, Places, Types, Types);
// Returns the accumulation dtype of matmul operands of this dtype: f32 for 16-bit operands.
DType summedIn(DType operand);

// Outputs are placed like the inputs: all replicated, or all split alike. One split input makes the
// others be split.
Placing placeElementwise(const Node&, Places, Types, Types);
// As placeElementwise; partial sums of all inputs also give a partial sum.
Placing placeLinear(const Node&, Places, Types, Types);

// ---- Costs.
std::int64_t movedBytes(Types inputs, Types outputs);
OpCost costNothing(const Node&, Types, Types);
OpCost costMove(const Node&, Types, Types);         // no arithmetic
OpCost costElementwise(const Node&, Types, Types);  // one operation for each element of input 0

// ---- Gradients.
// Returns the gradient before the fused activation of a node with attribute `act`.
Result<ValueId> throughActivation(GradBuilder& build, const Node& node, ValueId dy);

}  // namespace lockstep::ir::rules
