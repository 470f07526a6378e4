// Graph: one logical, single-device computation as a DAG of typed ops in SSA form.
//
// Conventions (those of TensorFlow): images are NHWC, convolution weights HWIO, dense weights
// [in, out]; batch is dimension 0. Shapes are static. State (parameters, optimizer moments) enters
// through a `state` node and leaves through a `store` node of the same name; everything else is
// pure. Losses and metrics are sums over samples, Σ w·x, never means (the global Σ w is a value
// too).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/base/dtype.h"
#include "engine/base/status.h"
#include "engine/ir/placement.h"

namespace lockstep::ir {

enum class Op : std::uint8_t;  // engine/ir/ops.h

using ValueId = std::int32_t;
using NodeId = std::int32_t;

struct TensorType {
  DType dtype = DType::kF32;
  Shape shape;
  std::int64_t count() const { return elementCount(shape); }
  std::int64_t bytes() const { return count() * static_cast<std::int64_t>(sizeOf(dtype)); }
  std::string text() const;  // "f32[64x784]"
  bool operator==(const TensorType&) const = default;
};

using Attr = std::variant<std::int64_t, double, std::string, std::vector<std::int64_t>>;
using Attrs = std::map<std::string, Attr, std::less<>>;  // ordered, so that the text is canonical

// The purpose of a node; the step breakdown is grouped by it.
// kWatch: what only people read of a step (gradient norm, update ratio). Nothing that trains reads
// it, and it is not computed in every step: see plan::Plan::watchEvery.
enum class Phase : std::uint8_t { kInit, kData, kForward, kBackward, kOptimizer, kWatch };
std::string_view phaseName(Phase phase);
std::optional<Phase> phaseFromName(std::string_view name);

struct Value {
  TensorType type;
  NodeId producer = -1;
  int index = 0;                       // output index of the producer
  std::optional<Placement> placement;  // set by placement propagation
};

struct Node {
  Op op{};
  std::string name;  // unique in the graph, a name (isName), e.g. "dense1.matmul"
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  std::vector<NodeId> after;  // control edges: runs after these
  Attrs attrs;
  Phase phase = Phase::kForward;
  int stage = 0;  // mesh stage (Mesh::stageOf), or kEveryStage
};
// Computed redundantly by every stage of a pipeline.
inline constexpr int kEveryStage = -1;

// Nodes are stored in topological order: after the producers of their inputs and their control
// predecessors. Ids are indices. Nodes are never erased; passes build new graphs.
class Graph {
 public:
  explicit Graph(std::string name = "graph") : name_(std::move(name)) {}

  const std::string& name() const { return name_; }
  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<Value>& values() const { return values_; }
  const Node& node(NodeId id) const { return nodes_[static_cast<std::size_t>(id)]; }
  const Value& value(ValueId id) const { return values_[static_cast<std::size_t>(id)]; }
  Value& value(ValueId id) { return values_[static_cast<std::size_t>(id)]; }
  void setStage(NodeId id, int stage) { nodes_[static_cast<std::size_t>(id)].stage = stage; }

  // Appends a node with output types from the op's shape rule. Checks attributes against the op's
  // row, converts integers to numbers where numbers are expected, sorts `after` and removes
  // duplicates. Errors: kInvalidArgument naming the node, the operand and what was expected.
  Result<NodeId> add(Op op, std::string name, std::vector<ValueId> inputs, Attrs attrs = {},
                     Phase phase = Phase::kForward, std::vector<NodeId> after = {});
  // Returns an output of a node.
  ValueId output(NodeId id, int index = 0) const {
    return node(id).outputs[static_cast<std::size_t>(index)];
  }
  const Node* find(std::string_view name) const;  // by node name; null if absent

 private:
  std::string name_;
  std::vector<Node> nodes_;
  std::vector<Value> values_;
  std::map<std::string, NodeId, std::less<>> names_;
};

// Limits of every type: at most kMaxRank dimensions, extents positive, product at most kMaxCount.
inline constexpr std::size_t kMaxRank = 8;
inline constexpr std::int64_t kMaxCount = std::int64_t{1} << 40;
inline constexpr std::size_t kMaxNodes = std::size_t{1} << 20;
Status checkShape(const Shape& shape);
// Node, axis, submesh and attribute names: letters, digits and "_./+-", not empty, at most 256.
bool isName(std::string_view text);

// Text form, one node a line, values numbered in order:
//
//   graph "fashion-mlp"
//   %2, %3 = op(%0, %1) {key="text", n=1, x=0.5, l=[1 2]} : f32[64x10] <data: split 0 [0 32 64]>,
//   f32[1] | name, forward, stage 1, after other.node
//
// The part after `:` is omitted without outputs, {…} without attributes, <…> without placement, the
// stage if it is 0; it may be "every stage".
// Canonical: parse(text(g)) == g and text(parse(t)) == t for text written by text().
std::string text(const Graph& graph);
Result<Graph> parse(std::string_view text, std::string_view file = "graph");

// Verifies the invariants above, all types against the ops' shape rules, and that state names are
// read and stored consistently. Called after every pass.
Status verify(const Graph& graph);

}  // namespace lockstep::ir
