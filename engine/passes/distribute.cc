#include "engine/passes/distribute.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <utility>

#include "engine/ir/ops.h"
#include "engine/passes/rewrite.h"

namespace lockstep::passes {
namespace {

using ir::AxisPlacement;
using ir::ValueId;
using Kind = AxisPlacement::Kind;

bool isPartial(const AxisPlacement& placement) {
  return placement.kind == Kind::kPartialSum || placement.kind == Kind::kPartialMax;
}

class Placer {
 public:
  Placer(const ir::Graph& graph, std::string_view axis, const Sources& sources)
      : graph_(graph), axis_(axis), sources_(sources) {}

  // One round derives placements up to the first operand that must be reduced; that reduction is
  // noted and the rounds repeat, so there are as many as there are collectives, plus one.
  Result<ir::Graph> run() {
    while (true) {
      LOCKSTEP_ASSIGN(const bool done, derive());
      if (done) return build();
    }
  }

 private:
  AxisPlacement& placement(ValueId value) { return placements_[static_cast<std::size_t>(value)]; }
  AxisPlacement seen(ValueId value) {
    return reduced_.contains(value) ? AxisPlacement{} : placement(value);
  }

  Result<bool> derive() {
    placements_.assign(graph_.values().size(), {});
    for (const ir::Node& node : graph_.nodes()) {
      if (node.inputs.empty()) {
        const auto source = sources_.find(node.name);
        if (source == sources_.end()) continue;
        for (const ValueId output : node.outputs) placement(output) = source->second;
        continue;
      }
      std::vector<AxisPlacement> inputs;
      std::vector<ir::TensorType> inputTypes, outputTypes;
      for (const ValueId input : node.inputs) {
        inputs.push_back(seen(input));
        inputTypes.push_back(graph_.value(input).type);
      }
      for (const ValueId output : node.outputs) outputTypes.push_back(graph_.value(output).type);
      if (node.op == ir::Op::kStore || node.op == ir::Op::kResult) {
        if (inputs[0].kind == Kind::kReplicated) continue;
        LOCKSTEP_TRY(reduce(node, 0));
        return false;
      }
      if (node.op == ir::Op::kPack) zerosJoinPartial(node, inputs);
      auto outputs = ir::info(node.op).place(node, inputs, inputTypes, outputTypes);
      if (!outputs.ok()) {
        const int operand = operandOf(outputs.error());
        if (operand < 0 || static_cast<std::size_t>(operand) >= inputs.size()) {
          return std::move(outputs.error());
        }
        LOCKSTEP_TRY(reduce(node, static_cast<std::size_t>(operand)));
        return false;
      }
      for (std::size_t i = 0; i < node.outputs.size(); ++i) {
        placement(node.outputs[i]) = (*outputs)[i];
      }
    }
    return true;
  }

  // Zeros are the sum of zeros: as a member of a partial group a constant zero is partial too.
  void zerosJoinPartial(const ir::Node& node, std::vector<AxisPlacement>& inputs) {
    const bool partial = std::any_of(inputs.begin(), inputs.end(), [](const AxisPlacement& input) {
      return input.kind == Kind::kPartialSum;
    });
    if (!partial) return;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const ir::Node& producer = graph_.node(graph_.value(node.inputs[i]).producer);
      if (inputs[i].kind == Kind::kReplicated && producer.op == ir::Op::kFill &&
          ir::floatAttr(producer.attrs, "value") == 0) {
        inputs[i].kind = Kind::kPartialSum;
        placement(node.inputs[i]) = inputs[i];
      }
    }
  }

  static int operandOf(const Error& error) {
    constexpr std::string_view kPrefix = "input ";
    if (error.code != Code::kFailedPrecondition || !error.next.starts_with(kPrefix)) return -1;
    int operand = -1;
    const char* begin = error.next.data() + kPrefix.size();
    std::from_chars(begin, error.next.data() + error.next.size(), operand);
    return operand;
  }

  Status reduce(const ir::Node& node, std::size_t operand) {
    ValueId value = node.inputs[operand];
    while (true) {
      const ir::Node& producer = graph_.node(graph_.value(value).producer);
      if (producer.op != ir::Op::kSlice1 && producer.op != ir::Op::kReshape) break;
      value = producer.inputs[0];
    }
    if (!isPartial(placement(value)) || !reduced_.insert(value).second) {
      return invalidArgument("node {} needs operand {} whole along axis {}, and no reduction makes "
                             "it so",
                             node.name, operand, axis_);
    }
    return {};
  }

  Result<ir::Graph> build() {
    Rewrite rewrite(graph_);
    for (std::size_t id = 0; id < graph_.nodes().size(); ++id) {
      const ir::Node& node = graph_.nodes()[id];
      LOCKSTEP_TRY(rewrite.copy(static_cast<ir::NodeId>(id)).status());
      for (const ValueId output : node.outputs) {
        const ValueId copied = rewrite(output);
        mark(rewrite.to().value(copied), placement(output));
        if (!reduced_.contains(output)) continue;
        const bool max = placement(output).kind == Kind::kPartialMax;
        LOCKSTEP_ASSIGN(
            const ir::NodeId collective,
            rewrite.to().add(ir::Op::kAllReduce, node.name + ".all-reduce", {copied},
                             {{"axis", std::string(axis_)}, {"op", std::string(max ? "max" : "sum")}},
                             node.phase));
        const ValueId whole = rewrite.to().output(collective);
        rewrite.to().value(whole).placement = rewrite.to().value(copied).placement;
        mark(rewrite.to().value(whole), {});
        rewrite.replace(output, whole);
      }
    }
    return rewrite.take();
  }

  void mark(ir::Value& value, const AxisPlacement& placement) {
    if (!value.placement) value.placement.emplace();
    value.placement->axes.erase(std::string(axis_));
    if (placement.kind != Kind::kReplicated) {
      value.placement->axes.emplace(std::string(axis_), placement);
    }
  }

  const ir::Graph& graph_;
  std::string_view axis_;
  const Sources& sources_;
  std::vector<AxisPlacement> placements_;
  std::set<ValueId> reduced_;
};

std::int64_t share(const AxisPlacement& placement, int coordinate) {
  const auto c = static_cast<std::size_t>(coordinate);
  return placement.cuts[c + 1] - placement.cuts[c];
}

Shape localShape(const ir::Value& value, const cluster::Mesh& mesh, int rank) {
  Shape shape = value.type.shape;
  if (!value.placement) return shape;
  for (const auto& [axis, placement] : value.placement->axes) {
    if (placement.kind != Kind::kSplit) continue;
    shape[static_cast<std::size_t>(placement.dim)] = share(placement, mesh.coordinate(rank, axis));
  }
  return shape;
}

}  // namespace

std::vector<std::int64_t> evenCuts(std::int64_t extent, int shares) {
  std::vector<std::int64_t> cuts{0};
  const std::int64_t base = extent / shares, larger = extent % shares;
  for (int i = 0; i < shares; ++i) cuts.push_back(cuts.back() + base + (i < larger ? 1 : 0));
  return cuts;
}

Result<ir::Graph> place(const ir::Graph& graph, std::string_view axis, const Sources& sources) {
  return Placer(graph, axis, sources).run();
}

std::vector<int> localClasses(const ir::Graph& placed, const cluster::Mesh& mesh) {
  std::set<std::pair<std::string, std::vector<std::int64_t>>> splits;
  for (const ir::Value& value : placed.values()) {
    if (!value.placement) continue;
    for (const auto& [axis, placement] : value.placement->axes) {
      if (placement.kind == Kind::kSplit) splits.emplace(axis, placement.cuts);
    }
  }
  std::map<std::vector<std::int64_t>, int> known;
  std::vector<int> classes;
  for (int rank = 0; rank < mesh.size(); ++rank) {
    std::vector<std::int64_t> extents;
    for (const auto& [axis, cuts] : splits) {
      const auto c = static_cast<std::size_t>(mesh.coordinate(rank, axis));
      extents.push_back(cuts[c + 1] - cuts[c]);
    }
    classes.push_back(known.emplace(std::move(extents), static_cast<int>(known.size()))
                          .first->second);
  }
  return classes;
}

Result<ir::Graph> localise(const ir::Graph& placed, const cluster::Mesh& mesh, int rank) {
  Rewrite rewrite(placed);
  for (std::size_t id = 0; id < placed.nodes().size(); ++id) {
    const ir::Node& node = placed.nodes()[id];
    ir::Attrs attrs = node.attrs;
    // Wherever an op has the attribute "shape", it is the shape of its output.
    if (const auto shape = attrs.find("shape"); shape != attrs.end()) {
      shape->second = localShape(placed.value(node.outputs[0]), mesh, rank);
    }
    LOCKSTEP_ASSIGN(const ir::NodeId copied,
                    rewrite.copy(static_cast<ir::NodeId>(id), std::move(attrs)));
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      const Shape expected = localShape(placed.value(node.outputs[i]), mesh, rank);
      ir::Value& local = rewrite.to().value(rewrite.to().output(copied, static_cast<int>(i)));
      local.placement.reset();  // a rank's own value lives nowhere else
      const Shape& actual = local.type.shape;
      if (actual != expected) {
        return makeError(Code::kInternal, "node {}: the local shape is {}, its placement says {}",
                         node.name, shapeText(actual), shapeText(expected));
      }
    }
  }
  return rewrite.take();
}

}  // namespace lockstep::passes
