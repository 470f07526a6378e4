#include "engine/planner/lower.h"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

#include "engine/ir/ops.h"
#include "engine/planner/arena.h"

namespace lockstep::planner {
namespace {

using ir::NodeId;
using ir::Op;
using ir::ValueId;

// A piece of memory of its own: a state, an input or a temporary.
struct Storage {
  std::string name;
  ir::TensorType type;
  plan::BufferKind kind = plan::BufferKind::kTemp;
  std::int64_t offset = 0;  // kState: in the state arena
  bool shared = false;      // holds a group: nothing else works in place of it
  std::vector<ValueId> values;
  plan::BufferId buffer = -1;
};

// Of a view: from `offset`, and along an axis `stride` bytes further for each coordinate.
struct Location {
  int storage = -1;
  std::int64_t offset = 0;
  std::string axis;
  std::int64_t stride = 0;
  bool operator==(const Location&) const = default;
};

class Lowering {
 public:
  Lowering(const ir::Graph& graph, const std::vector<plan::StateSlot>& state)
      : graph_(graph),
        state_(state),
        locations_(graph.values().size()),
        readers_(graph.values().size()) {}

  Result<plan::Body> run(std::string role, OverlapPolicy& overlap) {
    body_.role = std::move(role);
    for (std::size_t id = 0; id < graph_.nodes().size(); ++id) {
      for (const ValueId input : graph_.nodes()[id].inputs) {
        readers_[index(input)].push_back(static_cast<NodeId>(id));
      }
    }
    LOCKSTEP_TRY(placeSources());
    LOCKSTEP_TRY(placeStores());
    placePacks();
    LOCKSTEP_TRY(placeOthers());
    LOCKSTEP_TRY(emit());
    overlapCollectives(body_, overlap);
    layOutArena(body_);
    return std::move(body_);
  }

 private:
  static std::size_t index(ValueId value) { return static_cast<std::size_t>(value); }
  const ir::TensorType& type(ValueId value) const { return graph_.value(value).type; }
  const ir::Node& producer(ValueId value) const {
    return graph_.node(graph_.value(value).producer);
  }
  Location& location(ValueId value) { return locations_[index(value)]; }
  bool placed(ValueId value) { return location(value).storage >= 0; }

  void put(ValueId value, Location where) {
    location(value) = where;
    storages_[static_cast<std::size_t>(where.storage)].values.push_back(value);
  }
  int newStorage(std::string name, const ir::TensorType& type, plan::BufferKind kind) {
    storages_.push_back({std::move(name), type, kind});
    return static_cast<int>(storages_.size()) - 1;
  }
  Storage& storage(ValueId value) {
    return storages_[static_cast<std::size_t>(location(value).storage)];
  }

  // The last node that reads the value, itself or through a view; the end for results.
  NodeId lastRead(ValueId value) const {
    NodeId last = graph_.value(value).producer;
    for (const NodeId reader : readers_[index(value)]) {
      const ir::Node& node = graph_.node(reader);
      if (node.op == Op::kResult || node.op == Op::kStore) {
        last = std::numeric_limits<NodeId>::max();
      } else if (ir::viewsInput(node.op)) {
        last = std::max(last, lastRead(node.outputs[0]));
      } else {
        last = std::max(last, reader);
      }
    }
    return last;
  }

  Status placeSources() {
    for (const ir::Node& node : graph_.nodes()) {
      if (node.op == Op::kInput) {
        const ValueId value = node.outputs[0];
        put(value, {newStorage(std::string(ir::textAttr(node.attrs, "name")), type(value),
                               plan::BufferKind::kInput)});
      } else if (node.op == Op::kState || node.op == Op::kStore) {
        const std::string name(ir::textAttr(node.attrs, "state"));
        const auto slot = std::find_if(state_.begin(), state_.end(),
                                       [&](const plan::StateSlot& s) { return s.name == name; });
        const ValueId value = node.op == Op::kState ? node.outputs[0] : node.inputs[0];
        if (slot == state_.end() || slot->type != type(value)) {
          return makeError(Code::kInternal, "node {}: the plan has no state {} {}", node.name, name,
                           type(value).text());
        }
        const auto [entry, isNew] = stateStorage_.emplace(name, 0);
        if (isNew) {
          entry->second = newStorage(name, slot->type, plan::BufferKind::kState);
          storages_.back().offset = slot->offset;
        }
        if (node.op == Op::kState) put(value, {entry->second});
      }
    }
    return {};
  }

  // A stored value is made where its state lies if nothing reads the old state afterwards.
  Status placeStores() {
    for (const ir::Node& node : graph_.nodes()) {
      if (node.op != Op::kStore) continue;
      const int target = stateStorage_.find(ir::textAttr(node.attrs, "state"))->second;
      const ValueId value = node.inputs[0];
      const NodeId when = graph_.value(value).producer;
      const auto& old = storages_[static_cast<std::size_t>(target)].values;
      const bool overwritten = std::all_of(
          old.begin(), old.end(), [&](ValueId before) { return lastRead(before) <= when; });
      const bool takesOver = old.empty() || worksOn(value, target);
      const ir::OpInfo& info = ir::info(producer(value).op);
      const bool makes = producer(value).op == Op::kFlatten || producer(value).op == Op::kRecv ||
                         producer(value).op == Op::kRecvRows || !(info.isView || info.isCollective);
      if (!placed(value) && makes && overwritten && takesOver) {
        put(value, {target});
      } else if (gathersInPlace(value, target)) {
        const ir::Node& gather = producer(value);
        const ir::TensorType& part = type(gather.inputs[0]);
        put(gather.inputs[0],
            {target, 0, std::string(ir::textAttr(gather.attrs, "axis")), part.bytes()});
        put(value, {target});
      } else {
        copies_.push_back({value, target, node.name});
      }
    }
    for (const StoreCopy& copy : copies_) {
      if (placed(copy.value) && storage(copy.value).kind == plan::BufferKind::kState) {
        return makeError(Code::kInternal, "{}: one state is stored from another", copy.name);
      }
    }
    return {};
  }
  // An all-gather of equal parts, each made by an op that updates its part of the old state, which
  // nobody reads any more: the parts are made and gathered where the state lies.
  bool gathersInPlace(ValueId value, int target) {
    const ir::Node& gather = producer(value);
    if (placed(value) || gather.op != Op::kAllGather) return false;
    const ValueId part = gather.inputs[0];
    if (placed(part) || readers_[index(part)].size() != 1) return false;
    const ir::Node& update = producer(part);
    const auto& inPlace = ir::info(update.op).inPlace;
    const auto output = static_cast<std::size_t>(graph_.value(part).index);
    if (output >= inPlace.size() || inPlace[output] < 0) return false;
    const ValueId input = update.inputs[static_cast<std::size_t>(inPlace[output])];
    const ir::Node& view = producer(input);
    const auto& old = storages_[static_cast<std::size_t>(target)].values;
    return view.op == Op::kFlatView && location(view.inputs[0]) == Location{target} &&
           ir::textAttr(view.attrs, "axis") == ir::textAttr(gather.attrs, "axis") &&
           ir::intAttr(view.attrs, "offset") == 0 &&
           std::all_of(old.begin(), old.end(), [&](ValueId before) {
             return lastRead(before) <= graph_.value(part).producer;
           });
  }
  // The producer may work in place on the storage, which it reads whole.
  bool worksOn(ValueId value, int target) {
    const ir::Node& node = producer(value);
    const auto& inPlace = ir::info(node.op).inPlace;
    const auto output = static_cast<std::size_t>(graph_.value(value).index);
    if (output >= inPlace.size() || inPlace[output] < 0) return false;
    const ValueId input = node.inputs[static_cast<std::size_t>(inPlace[output])];
    return location(input) == Location{target} && type(input).bytes() == type(value).bytes();
  }

  // The value behind reshapes nobody else reads.
  ValueId behindReshapes(ValueId value) const {
    while (producer(value).op == Op::kReshape &&
           readers_[index(producer(value).inputs[0])].size() == 1) {
      value = producer(value).inputs[0];
    }
    return value;
  }

  // Outer groups first, so that a group within a group lies in it.
  void placePacks() {
    for (std::size_t id = graph_.nodes().size(); id-- > 0;) {
      const ir::Node& node = graph_.nodes()[id];
      if (node.op != Op::kFlatten) continue;
      const ValueId pack = node.outputs[0];
      if (!placed(pack)) {
        put(pack, {newStorage(node.name, type(pack), plan::BufferKind::kTemp)});
      }
      storage(pack).shared = true;
      std::int64_t offset = location(pack).offset;
      for (const ValueId member : node.inputs) {
        const ValueId value = behindReshapes(member);
        const ir::OpInfo& info = ir::info(producer(value).op);
        const bool makes =
            producer(value).op == Op::kFlatten || !(info.isView || info.isCollective);
        if (!placed(value) && makes && readers_[index(member)].size() == 1 &&
            readers_[index(value)].size() == 1) {
          put(value, {location(pack).storage, offset});
        }
        offset += type(member).bytes();
      }
    }
  }

  Status placeOthers() {
    for (std::size_t id = 0; id < graph_.nodes().size(); ++id) {
      const ir::Node& node = graph_.nodes()[id];
      for (std::size_t i = 0; i < node.outputs.size(); ++i) {
        const ValueId value = node.outputs[i];
        if (placed(value)) continue;
        if (ir::viewsInput(node.op)) {
          Location where = location(node.inputs[0]);
          const auto element = static_cast<std::int64_t>(sizeOf(type(value).dtype));
          where.offset += ir::intAttr(node.attrs, "offset") * element;
          if (const std::string_view axis = ir::textAttr(node.attrs, "axis"); !axis.empty()) {
            if (!where.axis.empty()) {
              return makeError(Code::kInternal, "node {}: a view along {} of one along {}",
                               node.name, axis, where.axis);
            }
            where.axis = axis;
            where.stride = ir::intAttr(node.attrs, "stride") * element;
          }
          put(value, std::move(where));
        } else if (reusesInput(node, static_cast<NodeId>(id), i)) {
          const auto input = static_cast<std::size_t>(
              node.op == Op::kAllReduce ? 0 : ir::info(node.op).inPlace[i]);
          put(value, location(node.inputs[input]));
        } else {
          put(value, {newStorage(valueName(value), type(value), plan::BufferKind::kTemp)});
        }
      }
    }
    return {};
  }

  bool reusesInput(const ir::Node& node, NodeId id, std::size_t output) {
    const bool reduce = node.op == Op::kAllReduce;
    const auto& inPlace = ir::info(node.op).inPlace;
    if (!reduce && (output >= inPlace.size() || inPlace[output] < 0)) return false;
    const ValueId input = node.inputs[reduce ? 0 : static_cast<std::size_t>(inPlace[output])];
    const Storage& memory = storage(input);
    if (memory.kind != plan::BufferKind::kTemp || (memory.shared && !reduce)) return false;
    if (type(input).bytes() != type(node.outputs[output]).bytes()) return false;
    if (location(input) != Location{location(input).storage} ||
        type(input).bytes() != memory.type.bytes()) {
      return false;
    }
    return std::all_of(memory.values.begin(), memory.values.end(),
                       [&](ValueId value) { return lastRead(value) <= id; });
  }

  std::string valueName(ValueId value) const {
    const int output = graph_.value(value).index;
    return output == 0 ? producer(value).name : fmt::format("{}.{}", producer(value).name, output);
  }

  plan::BufferId rootBuffer(int id) {
    Storage& memory = storages_[static_cast<std::size_t>(id)];
    if (memory.buffer < 0) {
      memory.buffer = static_cast<plan::BufferId>(body_.buffers.size());
      body_.buffers.push_back({memory.name, memory.type, memory.kind, -1, memory.offset});
    }
    return memory.buffer;
  }
  plan::BufferId bufferAt(Location where, const ir::TensorType& type, const std::string& name) {
    const plan::BufferId root = rootBuffer(where.storage);
    const Storage& memory = storages_[static_cast<std::size_t>(where.storage)];
    if (where == Location{where.storage} && type == memory.type) return root;
    const auto [entry, isNew] = views_.emplace(
        std::make_tuple(where.storage, where.offset, where.axis, where.stride, type.text()),
        static_cast<plan::BufferId>(body_.buffers.size()));
    if (isNew) {
      body_.buffers.push_back(
          {name, type, memory.kind, root, where.offset, where.axis, where.stride});
    }
    return entry->second;
  }
  plan::BufferId buffer(ValueId value) {
    return bufferAt(location(value), type(value), valueName(value));
  }

  Status emit() {
    for (const ir::Node& node : graph_.nodes()) {
      switch (node.op) {
        case Op::kInput:
          buffer(node.outputs[0]);  // the trainer writes it even where nothing reads it
          break;
        case Op::kStore:
          emitStoreOf(node);
          break;
        case Op::kState:
        case Op::kReshape:
        case Op::kFlatView:
          break;
        case Op::kResult:
          body_.results.push_back(
              {std::string(ir::textAttr(node.attrs, "name")), buffer(node.inputs[0])});
          break;
        case Op::kFlatten:
          emitMemberCopies(node);
          break;
        default:
          LOCKSTEP_TRY(emitStep(node));
      }
    }
    for (const StoreCopy& copy : copies_)
      if (!copy.isEmitted)
        emitCopy(copy.name,
                 producer(copy.value).phase == ir::Phase::kWatch ? ir::Phase::kWatch
                                                                 : ir::Phase::kOptimizer,
                 copy.value, {copy.target});
    return {};
  }

  // Where nothing reads the state, as in "init", it is copied there at once, so that what it is a
  // copy of, a whole group perhaps of which this rank has a part, needs its memory no longer; else
  // at the end.
  void emitStoreOf(const ir::Node& node) {
    for (StoreCopy& copy : copies_) {
      if (copy.name != node.name ||
          !storages_[static_cast<std::size_t>(copy.target)].values.empty())
        continue;
      emitCopy(copy.name, node.phase, copy.value, {copy.target});
      copy.isEmitted = true;
    }
  }

  void emitMemberCopies(const ir::Node& node) {
    Location where = location(node.outputs[0]);
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId member = node.inputs[i];
      const Location at = location(member);
      if (at != where) {
        emitCopy(fmt::format("{}.member.{}", node.name, i), node.phase, member, where);
      }
      where.offset += type(member).bytes();
    }
  }

  void emitCopy(std::string name, ir::Phase phase, ValueId from, Location to) {
    plan::Step step;
    step.name = std::move(name);
    step.op = Op::kScale;
    step.attrs = {{"factor", 1.0}};
    step.phase = phase;
    step.inputs = {buffer(from)};
    step.outputs = {bufferAt(to, type(from), step.name)};
    step.bytes = 2 * type(from).bytes();
    body_.steps.push_back(std::move(step));
  }

  Status emitStep(const ir::Node& node) {
    const ir::OpInfo& info = ir::info(node.op);
    std::vector<ir::TensorType> inputTypes, outputTypes;
    for (const ValueId input : node.inputs) inputTypes.push_back(type(input));
    for (const ValueId output : node.outputs) outputTypes.push_back(type(output));
    plan::Step step;
    step.name = node.name;
    step.op = node.op;
    step.attrs = node.attrs;
    step.phase = node.phase;
    if (info.isCollective) {
      step.kind = plan::StepKind::kCollective;
      step.axis = std::string(ir::textAttr(node.attrs, "axis"));
    }
    const ir::OpCost cost = info.cost(node, inputTypes, outputTypes);
    step.flops = cost.flops;
    step.bytes = cost.bytes;
    // An all-reduce works in place: what is still read or not ours is copied first.
    if (node.op == Op::kAllReduce) {
      const Location from = location(node.inputs[0]), to = location(node.outputs[0]);
      if (from != to) {
        emitCopy(node.name + ".copy", node.phase, node.inputs[0], to);
      }
      step.inputs = {buffer(node.outputs[0])};
    } else {
      for (const ValueId input : node.inputs) step.inputs.push_back(buffer(input));
    }
    for (const ValueId output : node.outputs) step.outputs.push_back(buffer(output));
    body_.steps.push_back(std::move(step));
    return {};
  }

  struct StoreCopy {
    ValueId value;
    int target;
    std::string name;
    bool isEmitted = false;
  };

  const ir::Graph& graph_;
  const std::vector<plan::StateSlot>& state_;
  std::vector<Location> locations_;
  std::vector<std::vector<NodeId>> readers_;
  std::vector<Storage> storages_;
  std::map<std::string, int, std::less<>> stateStorage_;
  std::vector<StoreCopy> copies_;
  std::map<std::tuple<int, std::int64_t, std::string, std::int64_t, std::string>, plan::BufferId>
      views_;
  plan::Body body_;
};

}  // namespace

Result<plan::Body> lower(const ir::Graph& local, const std::vector<plan::StateSlot>& state,
                         std::string role, OverlapPolicy& overlap) {
  return Lowering(local, state).run(std::move(role), overlap);
}

}  // namespace lockstep::planner
