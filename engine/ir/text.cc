#include "engine/ir/graph.h"
#include "engine/ir/lexer.h"
#include "engine/ir/ops.h"

namespace lockstep::ir {

std::string Placement::text() const {
  std::string out = submesh.empty() ? "" : "@" + submesh;
  auto part = [&](std::string_view separator, std::string word) {
    if (!out.empty()) out += separator;
    out += word;
  };
  if (axes.empty()) part(" ", "replicated");
  std::string_view separator = " ";
  for (const auto& [name, axis] : axes) {
    switch (axis.kind) {
      case AxisPlacement::Kind::kReplicated:
        continue;
      case AxisPlacement::Kind::kSplit:
        part(separator, fmt::format("{}: split {} {}", name, axis.dim, ir::text(axis.cuts)));
        break;
      case AxisPlacement::Kind::kPartialSum:
        part(separator, name + ": partial sum");
        break;
      case AxisPlacement::Kind::kPartialMax:
        part(separator, name + ": partial max");
        break;
    }
    separator = "; ";
  }
  return out;
}

std::string text(const Graph& graph) {
  std::string out = "graph " + quote(graph.name()) + "\n";
  for (const Node& node : graph.nodes()) {
    for (std::size_t i = 0; i < node.outputs.size(); ++i)
      out += fmt::format("{}%{}", i ? ", " : "", node.outputs[i]);
    if (!node.outputs.empty()) out += " = ";
    out += info(node.op).name;
    out += '(';
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      out += fmt::format("{}%{}", i ? ", " : "", node.inputs[i]);
    out += ')';
    if (!node.attrs.empty()) out += " " + text(node.attrs);
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      const Value& value = graph.value(node.outputs[i]);
      out += (i ? ", " : " : ") + value.type.text();
      if (value.placement) out += " <" + value.placement->text() + ">";
    }
    out += fmt::format(" | {}, {}", node.name, phaseName(node.phase));
    if (node.stage == kEveryStage) out += ", every stage";
    if (node.stage > 0) out += fmt::format(", stage {}", node.stage);
    for (std::size_t i = 0; i < node.after.size(); ++i)
      out += (i ? " " : ", after ") + graph.node(node.after[i]).name;
    out += '\n';
  }
  return out;
}

}  // namespace lockstep::ir
