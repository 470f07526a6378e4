#include <limits>
#include <map>

#include "engine/ir/graph.h"
#include "engine/ir/lexer.h"
#include "engine/ir/ops.h"

namespace lockstep::ir {
namespace {

constexpr std::size_t kMaxInputs = std::size_t{1} << 16;
constexpr std::int64_t kMaxStage = 1 << 20;

Result<ValueId> parseValue(Lexer& in) {
  if (!in.take("%")) return in.unexpected("a value such as %3");
  LOCKSTEP_ASSIGN(const std::int64_t id,
                  in.integer("the number of a value", 0, std::numeric_limits<ValueId>::max()));
  return static_cast<ValueId>(id);
}

// "%3, %4 =": the values that the node makes, which follow on those before it.
Result<std::vector<ValueId>> parseOutputs(Lexer& in, const Graph& graph) {
  std::vector<ValueId> outputs;
  if (!in.peek("%")) return outputs;
  do {
    Lexer before = in;
    LOCKSTEP_ASSIGN(const ValueId id, parseValue(in));
    const std::size_t next = graph.values().size() + outputs.size();
    if (static_cast<std::size_t>(id) != next)
      return before.error(fmt::format("value %{} is out of order, expected %{}", id, next));
    outputs.push_back(id);
  } while (in.take(","));
  LOCKSTEP_TRY(in.expect("="));
  return outputs;
}

// "(%1, %2)"
Result<std::vector<ValueId>> parseInputs(Lexer& in) {
  LOCKSTEP_TRY(in.expect("("));
  std::vector<ValueId> inputs;
  if (in.take(")")) return inputs;
  do {
    if (inputs.size() >= kMaxInputs) return in.error("too many inputs");
    LOCKSTEP_ASSIGN(const ValueId id, parseValue(in));
    inputs.push_back(id);
  } while (in.take(","));
  LOCKSTEP_TRY(in.expect(")"));
  return inputs;
}

struct OutputType {
  TensorType type;
  std::optional<Placement> placement;
};

// ": f32[4x2]<…>, f32[4]"
Result<std::vector<OutputType>> parseTypes(Lexer& in) {
  std::vector<OutputType> out;
  if (!in.take(":")) return out;
  do {
    OutputType one;
    LOCKSTEP_ASSIGN(one.type, parseType(in));
    if (in.peek("<")) {
      LOCKSTEP_ASSIGN(one.placement, parsePlacement(in));
    }
    out.push_back(std::move(one));
  } while (in.take(","));
  return out;
}

// The rest of the line: ", stage 1, after a, b"
struct NodePlace {
  int stage = 0;
  std::vector<NodeId> after;
};
Result<NodePlace> parsePlace(Lexer& in, const std::map<std::string, NodeId>& names) {
  NodePlace out;
  bool more = in.take(",");
  if (more && in.take("every stage")) {
    out.stage = kEveryStage;
    more = in.take(",");
  } else if (more && in.take("stage ")) {
    LOCKSTEP_ASSIGN(const std::int64_t coordinate, in.integer("a stage", 1, kMaxStage));
    out.stage = static_cast<int>(coordinate);
    more = in.take(",");
  }
  if (more) {
    LOCKSTEP_TRY(in.expect("after "));
    do {
      Lexer before = in;
      LOCKSTEP_ASSIGN(const std::string predecessor, in.name("the name of a node"));
      const auto it = names.find(predecessor);
      if (it == names.end())
        return before.error(fmt::format("node {} is not known, expected one above", predecessor));
      out.after.push_back(it->second);
    } while (in.endLine().ok() == false);
  }
  LOCKSTEP_TRY(in.endLine());
  return out;
}

Status parseNode(Lexer& in, Graph& graph, std::map<std::string, NodeId>& names) {
  LOCKSTEP_ASSIGN(const std::vector<ValueId> outputs, parseOutputs(in, graph));
  Lexer atOp = in;
  constexpr std::string_view kOp = "an op such as matmul";
  LOCKSTEP_ASSIGN(const std::string opName, in.name(kOp));
  const std::optional<Op> op = opFromName(opName);
  if (!op) return atOp.unexpected(kOp);
  LOCKSTEP_ASSIGN(std::vector<ValueId> inputs, parseInputs(in));
  Attrs attrs;
  if (in.peek("{")) {
    LOCKSTEP_ASSIGN(attrs, parseAttrs(in));
  }
  LOCKSTEP_ASSIGN(std::vector<OutputType> types, parseTypes(in));
  LOCKSTEP_TRY(in.expect("|"));
  LOCKSTEP_ASSIGN(const std::string name, in.name("the name of the node"));
  LOCKSTEP_TRY(in.expect(","));
  constexpr std::string_view kPhase = "a phase: init, data, forward, backward, optimizer or watch";
  Lexer atPhase = in;
  LOCKSTEP_ASSIGN(const std::string phaseWord, in.name(kPhase));
  const std::optional<Phase> phase = phaseFromName(phaseWord);
  if (!phase) return atPhase.unexpected(kPhase);
  LOCKSTEP_ASSIGN(NodePlace place, parsePlace(in, names));

  Result<NodeId> id =
      graph.add(*op, name, std::move(inputs), std::move(attrs), *phase, std::move(place.after));
  if (!id.ok()) return atOp.error(id.error().what.text());
  graph.setStage(*id, place.stage);
  names.emplace(name, *id);
  const Node& node = graph.node(*id);
  if (node.outputs.size() != outputs.size())
    return atOp.error(
        fmt::format("{} values on the left, expected {}", outputs.size(), node.outputs.size()));
  if (types.size() != outputs.size())
    return atOp.error(fmt::format("{} types, expected {}", types.size(), outputs.size()));
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    Value& value = graph.value(node.outputs[i]);
    if (value.type != types[i].type)
      return atOp.error(fmt::format("type {} of %{}, expected {}", types[i].type.text(), outputs[i],
                                    value.type.text()));
    value.placement = std::move(types[i].placement);
  }
  return {};
}

}  // namespace

Result<Graph> parse(std::string_view text, std::string_view file) {
  Lexer in(text, file);
  in.skipLines();
  LOCKSTEP_TRY(in.expect("graph"));
  LOCKSTEP_ASSIGN(std::string name, in.quoted("the name of the graph in quotes"));
  LOCKSTEP_TRY(in.endLine());
  Graph graph(std::move(name));
  std::map<std::string, NodeId> names;
  for (in.skipLines(); !in.atEnd(); in.skipLines()) LOCKSTEP_TRY(parseNode(in, graph, names));
  if (Status status = verify(graph); !status.ok()) return in.error(status.error().what.text());
  return graph;
}

}  // namespace lockstep::ir
