#include "engine/passes/distribute.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>
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

// Placements are compared where they are keys.
std::tuple<int, int, std::vector<std::int64_t>> keyOf(const AxisPlacement& placement) {
  return {static_cast<int>(placement.kind), placement.dim, placement.cuts};
}

bool equalParts(const std::vector<std::int64_t>& cuts) {
  for (std::size_t i = 2; i < cuts.size(); ++i) {
    if (cuts[i] - cuts[i - 1] != cuts[1] - cuts[0]) return false;
  }
  return true;
}

class Placer {
 public:
  Placer(const ir::Graph& graph, std::string_view axis, const Sources& sources, bool servers)
      : graph_(graph), axis_(axis), sources_(sources), servers_(servers) {
    for (const ir::Node& node : graph.nodes()) {
      if (node.op != ir::Op::kStore) continue;
      const ir::NodeId made = graph.value(node.inputs[0]).producer;
      const auto state = sources.find(ir::textAttr(node.attrs, "state"));
      if (graph.node(made).op == ir::Op::kEmbeddingGrad && state != sources.end() &&
          isByRows(state->second))
        tableRows_.emplace(made, state->second);
    }
    for (std::size_t id = 0; id < graph.nodes().size(); ++id) {
      const ir::Node& node = graph.nodes()[id];
      const auto source = sources.find(node.name);
      if (node.op == ir::Op::kEmbeddingGrad && source != sources.end() && isByRows(source->second))
        tableRows_.emplace(static_cast<ir::NodeId>(id), source->second);
    }
  }

  // Derives placements node by node. Where a group must be reduced as a whole, that reduction is
  // noted, and all from the group's producer on is derived anew.
  Result<ir::Graph> run() {
    placements_.assign(graph_.values().size(), {});
    for (ir::NodeId at = 0; static_cast<std::size_t>(at) < graph_.nodes().size();) {
      LOCKSTEP_ASSIGN(const std::optional<ir::NodeId> group, derive(at));
      if (group) forget(*group, at);
      at = group.value_or(at + 1);
    }
    return build();
  }

 private:
  using Operand = std::pair<ir::NodeId, std::size_t>;
  static bool isByRows(const AxisPlacement& placement) {
    return placement.kind == Kind::kSplit && placement.dim == 0;
  }

  AxisPlacement& placement(ValueId value) { return placements_[static_cast<std::size_t>(value)]; }
  // As readers find it: after what is converted where it is made.
  AxisPlacement natural(ValueId value) {
    const auto atProducer = convertedAtProducer_.find(value);
    return atProducer == convertedAtProducer_.end() ? placement(value) : atProducer->second;
  }

  // Places a node's values. Where they need a group to be reduced at its producer, notes that and
  // returns the producer, from which placement is to go on again.
  Result<std::optional<ir::NodeId>> derive(ir::NodeId id) {
    const ir::Node& node = graph_.node(id);
    if (node.inputs.empty()) {
      const auto source = sources_.find(node.name);
      if (source == sources_.end()) return std::optional<ir::NodeId>();
      for (const ValueId output : node.outputs) placement(output) = source->second;
      return std::optional<ir::NodeId>();
    }
    std::vector<AxisPlacement> inputs;
    std::vector<ir::TensorType> inputTypes, outputTypes;
    for (const ValueId input : node.inputs) {
      inputs.push_back(isCollected(node, input) ? AxisPlacement{} : natural(input));
      inputTypes.push_back(graph_.value(input).type);
    }
    for (const ValueId output : node.outputs) outputTypes.push_back(graph_.value(output).type);
    if (node.op == ir::Op::kFlatten) zerosJoinPartial(id, inputs);
    while (true) {
      ir::Placing placing = place(id, inputs, inputTypes, outputTypes);
      if (placing.input < 0) {
        for (std::size_t i = 0; i < node.outputs.size(); ++i) {
          placement(node.outputs[i]) = placing.outputs[i];
          // What was to be reduced is whole where what it is made of is reduced before it.
          if (!isPartial(placing.outputs[i])) convertedAtProducer_.erase(node.outputs[i]);
        }
        LOCKSTEP_TRY(settle(node));
        return std::optional<ir::NodeId>();
      }
      const auto operand = static_cast<std::size_t>(placing.input);
      if (const auto group = reducedGroup(node.inputs[operand], placing.wanted)) return group;
      LOCKSTEP_TRY(convertible(node, node.inputs[operand], inputs[operand], placing.wanted));
      inputs[operand] = placing.wanted;
      wanted_[{id, operand}] = std::move(placing.wanted);
    }
  }

  // What was derived of these nodes, the last ones.
  void forget(ir::NodeId first, ir::NodeId last) {
    for (ir::NodeId id = first; id <= last; ++id)
      for (const ValueId output : graph_.node(id).outputs) placement(output) = {};
    wanted_.erase(wanted_.lower_bound({first, 0}), wanted_.end());
    for (; !joined_.empty() && joined_.back().first >= first; joined_.pop_back())
      placement(joined_.back().second) = {};
  }

  // A server adds up what its workers send.
  bool isCollected(const ir::Node& reader, ValueId value) const {
    return servers_ && reader.stage > 0 && graph_.node(graph_.value(value).producer).stage == 0;
  }

  // The strategy may say of any node where its result shall live.
  Status settle(const ir::Node& node) {
    const auto source = sources_.find(node.name);
    if (source == sources_.end() || node.outputs.empty()) return {};
    const ValueId output = node.outputs[0];
    if (placement(output) == source->second) return {};
    LOCKSTEP_TRY(convertible(node, output, placement(output), source->second));
    convertedAtProducer_.insert_or_assign(output, source->second);
    return {};
  }

  // A state is stored as the strategy placed it; a result is read whole. Of a table whose rows are
  // divided each rank adds up the gradients of its own.
  ir::Placing place(ir::NodeId id, const std::vector<AxisPlacement>& inputs,
                    const std::vector<ir::TensorType>& inputTypes,
                    const std::vector<ir::TensorType>& outputTypes) const {
    const ir::Node& node = graph_.node(id);
    if (const auto rows = tableRows_.find(id); rows != tableRows_.end()) {
      for (std::size_t i = 0; i < inputs.size(); ++i)
        if (inputs[i].kind != Kind::kReplicated) return {{}, static_cast<int>(i), {}};
      return {{rows->second}, -1, {}};
    }
    if (node.op != ir::Op::kStore && node.op != ir::Op::kResult) {
      return ir::info(node.op).place(node, inputs, inputTypes, outputTypes);
    }
    AxisPlacement wanted;
    if (node.op == ir::Op::kStore) {
      const auto state = sources_.find(ir::textAttr(node.attrs, "state"));
      if (state != sources_.end()) wanted = state->second;
    }
    if (inputs[0] == wanted) return {};
    return {{}, 0, wanted};
  }

  // Zeros are the sum of zeros: as a member of a partial group a constant zero is partial too.
  void zerosJoinPartial(ir::NodeId id, std::vector<AxisPlacement>& inputs) {
    const ir::Node& node = graph_.node(id);
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
        joined_.emplace_back(id, node.inputs[i]);
      }
    }
  }

  // Of a view of a partial group, what is reduced is the group, once and whole. Returns its
  // producer where that is new.
  std::optional<ir::NodeId> reducedGroup(ValueId value, const AxisPlacement& wanted) {
    if (wanted.kind != Kind::kReplicated || !isPartial(placement(value))) return std::nullopt;
    while (true) {
      const ir::Node& producer = graph_.node(graph_.value(value).producer);
      if (producer.op != ir::Op::kFlatView && producer.op != ir::Op::kReshape) break;
      value = producer.inputs[0];
    }
    if (!convertedAtProducer_.emplace(value, AxisPlacement{}).second) return std::nullopt;
    return graph_.value(value).producer;
  }

  Status convertible(const ir::Node& node, ValueId value, const AxisPlacement& from,
                     const AxisPlacement& to) const {
    const bool flat = graph_.value(value).type.shape.size() == 1;
    const bool known =
        (isPartial(from) && to.kind == Kind::kReplicated) ||
        (from.kind == Kind::kPartialSum && to.kind == Kind::kSplit && flat) ||
        (from.kind == Kind::kSplit && to.kind == Kind::kReplicated && flat) ||
        (from.kind == Kind::kReplicated && to.kind == Kind::kSplit && flat && equalParts(to.cuts));
    if (known) return {};
    ir::Placement have, need;
    have.axes[axis_] = from;
    need.axes[axis_] = to;
    return invalidArgument("node {}: value %{} is placed {}, and nothing makes it {}", node.name,
                           value, have.text(),
                           to.kind == Kind::kReplicated ? "replicated" : need.text());
  }

  // A partial value is reduced where it is made, so that its transfer begins early and its memory
  // ends early; what is whole or split is gathered or cut where it is used. A state that is
  // gathered in the forward pass, as it is or cast, is gathered anew in the backward pass, so that
  // nobody holds it in between (Rajbhandari et al.: "ZeRO", 2020, stage 3).
  Result<ir::Graph> build() {
    Rewrite rewrite(graph_);
    std::map<ValueId, std::vector<const AxisPlacement*>> wantedOf;  // in the readers' order
    for (const auto& [operand, wanted] : wanted_)
      wantedOf[graph_.node(operand.first).inputs[operand.second]].push_back(&wanted);
    for (std::size_t id = 0; id < graph_.nodes().size(); ++id) {
      const ir::Node& node = graph_.nodes()[id];
      std::vector<ValueId> inputs = rewrite.inputs(node);
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        const auto wanted = wanted_.find({static_cast<ir::NodeId>(id), i});
        if (wanted == wanted_.end()) {
          // A stage keeps the values of other stages that it has received.
          const bool here = producerOf(node.inputs[i]).stage == node.stage;
          if (node.phase == ir::Phase::kBackward && here && isOfGathered(node.inputs[i])) {
            LOCKSTEP_ASSIGN(inputs[i], regathered(rewrite, node.inputs[i]));
          }
          continue;
        }
        LOCKSTEP_ASSIGN(inputs[i], converted(rewrite, node.inputs[i], wanted->second, node.phase));
      }
      LOCKSTEP_TRY(
          rewrite.copy(static_cast<ir::NodeId>(id), node.attrs, std::move(inputs)).status());
      for (const ValueId output : node.outputs) {
        mark(rewrite.to().value(rewrite(output)), placement(output));
        if (const auto atProducer = convertedAtProducer_.find(output);
            atProducer != convertedAtProducer_.end()) {
          LOCKSTEP_ASSIGN(const ValueId made, convert(rewrite, output, placement(output),
                                                      atProducer->second, node.phase));
          rewrite.replace(output, made);
        } else if (isPartial(placement(output))) {
          for (const AxisPlacement* wanted : wantedOf[output])
            LOCKSTEP_TRY(converted(rewrite, output, *wanted, node.phase).status());
        }
      }
    }
    return rewrite.take();
  }

  const ir::Node& producerOf(ValueId value) const {
    return graph_.node(graph_.value(value).producer);
  }
  bool isCastState(ValueId value) const {
    const ir::Node& producer = producerOf(value);
    return producer.op == ir::Op::kCast && producerOf(producer.inputs[0]).op == ir::Op::kState;
  }
  bool isOfState(ValueId value) const {
    return producerOf(value).op == ir::Op::kState || isCastState(value);
  }
  // Whether a view made in the forward pass is of a divided state, gathered for it.
  bool gathers(const ir::Node& view) const {
    return isOfState(view.inputs[0]) && view.phase == ir::Phase::kForward &&
           placements_[static_cast<std::size_t>(view.inputs[0])].kind == Kind::kSplit &&
           wanted_.contains({graph_.value(view.outputs[0]).producer, 0});
  }
  bool isOfGathered(ValueId value) const {
    for (const ir::Node* node = &producerOf(value); ir::viewsInput(node->op);
         node = &producerOf(node->inputs[0]))
      if (gathers(*node)) return true;
    return false;
  }
  // The same view of the state as it is gathered in the backward pass.
  Result<ValueId> regathered(Rewrite& rewrite, ValueId value) {
    if (const auto known = regathered_.find(value); known != regathered_.end())
      return known->second;
    const ir::Node& view = producerOf(value);
    const auto wanted = wanted_.find({graph_.value(value).producer, 0});
    LOCKSTEP_ASSIGN(const ValueId from,
                    gathers(view)
                        ? converted(rewrite, view.inputs[0], wanted->second, ir::Phase::kBackward)
                        : regathered(rewrite, view.inputs[0]));
    LOCKSTEP_ASSIGN(const ir::NodeId made, rewrite.to().add(view.op, view.name + ".anew", {from},
                                                            view.attrs, ir::Phase::kBackward));
    rewrite.to().setStage(made, view.stage);
    const ValueId result = rewrite.to().output(made);
    rewrite.to().value(result).placement = rewrite.to().value(rewrite(value)).placement;
    regathered_.emplace(value, result);
    return result;
  }

  Result<ValueId> converted(Rewrite& rewrite, ValueId value, const AxisPlacement& wanted,
                            ir::Phase phase) {
    const bool anew = isOfState(value) && phase == ir::Phase::kBackward;
    const auto key = std::make_tuple(value, keyOf(wanted), anew);
    if (const auto known = conversions_.find(key); known != conversions_.end())
      return known->second;
    LOCKSTEP_ASSIGN(const ValueId made, convert(rewrite, value, natural(value), wanted, phase));
    conversions_.emplace(key, made);
    return made;
  }

  Result<ValueId> convert(Rewrite& rewrite, ValueId value, const AxisPlacement& from,
                          const AxisPlacement& to, ir::Phase phase) {
    ValueId copied = rewrite(value);
    if (from.kind == Kind::kSplit && isCastState(value)) {
      LOCKSTEP_ASSIGN(copied, castHere(rewrite, value, phase));
    }
    const ir::TensorType type = rewrite.to().value(copied).type;
    const ir::Node& producer = producerOf(value);
    ir::Op op = ir::Op::kAllReduce;
    ir::Attrs attrs{{"axis", axis_}};
    if (isPartial(from) && to.kind == Kind::kReplicated) {
      attrs["op"] = std::string(from.kind == Kind::kPartialMax ? "max" : "sum");
    } else if (isPartial(from)) {
      op = ir::Op::kReduceScatter;
      attrs["cuts"] = to.cuts;
      attrs["size"] = type.count();
    } else if (from.kind == Kind::kSplit) {
      op = ir::Op::kAllGather;
      attrs["cuts"] = from.cuts;
    } else {
      op = ir::Op::kFlatView;
      attrs["offset"] = std::int64_t{0};
      attrs["stride"] = to.cuts[1];
      attrs["shape"] = type.shape;
    }
    LOCKSTEP_ASSIGN(const ir::NodeId made,
                    rewrite.to().add(
                        op, unused(rewrite, fmt::format("{}.{}", producer.name, ir::info(op).name)),
                        {copied}, std::move(attrs), phase));
    rewrite.to().setStage(made, producer.stage);
    const ValueId result = rewrite.to().output(made);
    rewrite.to().value(result).placement = rewrite.to().value(copied).placement;
    mark(rewrite.to().value(result), to);
    return result;
  }

  // A rank's part of a state is cast where it is gathered: nobody holds that in between either.
  Result<ValueId> castHere(Rewrite& rewrite, ValueId value, ir::Phase phase) {
    const ir::Node& cast = producerOf(value);
    LOCKSTEP_ASSIGN(const ir::NodeId made,
                    rewrite.to().add(ir::Op::kCast, unused(rewrite, cast.name + ".part"),
                                     {rewrite(cast.inputs[0])}, cast.attrs, phase));
    rewrite.to().setStage(made, cast.stage);
    const ValueId result = rewrite.to().output(made);
    rewrite.to().value(result).placement = rewrite.to().value(rewrite(value)).placement;
    return result;
  }

  // The name, or with a number where nodes have it.
  static std::string unused(Rewrite& rewrite, const std::string& base) {
    std::string name = base;
    for (int n = 2; rewrite.to().find(name) != nullptr; ++n) name = fmt::format("{}.{}", base, n);
    return name;
  }

  void mark(ir::Value& value, const AxisPlacement& placement) {
    if (!value.placement) value.placement.emplace();
    value.placement->axes.erase(axis_);
    if (placement.kind != Kind::kReplicated) value.placement->axes.emplace(axis_, placement);
  }

  const ir::Graph& graph_;
  const std::string axis_;
  const Sources& sources_;
  const bool servers_;
  std::map<ir::NodeId, AxisPlacement> tableRows_;  // of gradients of tables divided by rows
  std::vector<AxisPlacement> placements_;
  std::map<Operand, AxisPlacement> wanted_;
  std::vector<std::pair<ir::NodeId, ValueId>> joined_;    // zerosJoinPartial: reader and constant
  std::map<ValueId, AxisPlacement> convertedAtProducer_;  // what is converted where it is made
  std::map<std::tuple<ValueId, std::tuple<int, int, std::vector<std::int64_t>>, bool>, ValueId>
      conversions_;
  std::map<ValueId, ValueId> regathered_;
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

// Writes into the attributes where a rank's part begins (ir::PartOffset).
Status setPartOffset(const ir::Graph& placed, const ir::Node& node, const cluster::Mesh& mesh,
                     int rank, ir::Attrs& attrs) {
  using Unit = ir::PartOffset::Unit;
  const ir::PartOffset& rule = ir::info(node.op).partOffset;
  if (rule.unit == Unit::kNone || ir::intAttr(attrs, "local") != 0)
    return {};  // ids are of the part
  if (rule.unit == Unit::kView) {
    if (attrs.contains("axis"))
      attrs["stride"] = elementCount(localShape(placed.value(node.outputs[0]), mesh, rank));
    return {};
  }
  const ir::Value& value = placed.value(
      rule.input < 0 ? node.outputs[0] : node.inputs[static_cast<std::size_t>(rule.input)]);
  if (!value.placement) return {};
  const Shape& whole = value.type.shape;
  const int last = static_cast<int>(whole.size()) - 1;
  const auto counts = [&](int dim) {
    if (rule.dim == ir::PartOffset::kLastDim) return dim == last && last > 0;
    return rule.dim == ir::PartOffset::kAnyDim || dim == rule.dim;
  };
  for (const auto& [axis, placement] : value.placement->axes) {
    if (placement.kind != Kind::kSplit || !counts(placement.dim)) continue;
    if (attrs.contains("axis") || !equalParts(placement.cuts)) {
      return invalidArgument(
          "node {} is split along {} in parts that are not equal, or along another axis too",
          node.name, axis);
    }
    std::int64_t stride = share(placement, mesh.coordinate(rank, axis));
    attrs["axis"] = axis;
    if (rule.unit == Unit::kColumns) attrs["columns"] = whole.back();
    if (rule.unit == Unit::kElements) {
      std::int64_t inner = 1;
      for (auto d = static_cast<std::size_t>(placement.dim) + 1; d < whole.size(); ++d)
        inner *= whole[d];
      stride *= inner;
      attrs["block"] = stride;
      attrs["pitch"] = whole[static_cast<std::size_t>(placement.dim)] * inner;
    }
    attrs["stride"] = stride;
  }
  return {};
}

}  // namespace

Result<ir::Graph> place(const ir::Graph& graph, std::string_view axis, const Sources& sources,
                        bool servers) {
  return Placer(graph, axis, sources, servers).run();
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
  for (int rank = 0; rank < mesh.workers(); ++rank) {
    std::vector<std::int64_t> extents;
    for (const auto& [axis, cuts] : splits) {
      const auto c = static_cast<std::size_t>(mesh.coordinate(rank, axis));
      extents.push_back(cuts[c + 1] - cuts[c]);
    }
    classes.push_back(
        known.emplace(std::move(extents), static_cast<int>(known.size())).first->second);
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
    if (node.op == ir::Op::kReduceScatter) {
      attrs["size"] = localShape(placed.value(node.outputs[0]), mesh, rank)[0];
    }
    LOCKSTEP_TRY(setPartOffset(placed, node, mesh, rank, attrs));
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
