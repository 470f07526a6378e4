// layers: the layers of a model, as the studio's table and graph of a model have them.
#include <optional>

#include "app/cli/commands.h"
#include "app/cli/json_line.h"
#include "app/cli/terminal.h"
#include "app/runs/layer_plan.h"
#include "app/specs/layer_graph.h"
#include "lockstep/spec/v1/spec.pb.h"

namespace lockstep::app::cli {
namespace {

struct Layers {
  std::vector<LayerRow> rows;
  LayerGraph graph;
  std::optional<LayerPlan> plan;
};

Result<Layers> read(const Arguments& arguments) {
  LOCKSTEP_ASSIGN(const RunSpecFile spec, loadRunSpec(modelFile(arguments.words()[0])));
  LOCKSTEP_TRY(mustHaveModel(spec));
  Layers out;
  LOCKSTEP_ASSIGN(out.rows, describeModel(spec.spec->model()));
  out.graph = layerGraphOf(spec.spec->model());
  if (arguments.has("ranks")) {
    LOCKSTEP_ASSIGN(const std::int64_t ranks, arguments.integer("ranks", 1, 1, 4096));
    LOCKSTEP_ASSIGN(out.plan, planLayers(*spec.spec, static_cast<int>(ranks)));
  }
  return out;
}

std::vector<std::string> inputsOf(const Layers& layers, std::size_t layer) {
  std::vector<std::string> out;
  for (const LayerGraph::Edge& edge : layers.graph.edges) {
    if (edge.to != static_cast<int>(layer)) continue;
    out.push_back(edge.from == LayerGraph::kInput ? "input"
                  : edge.from == LayerGraph::kCategories
                      ? "categories"
                      : layers.rows[static_cast<std::size_t>(edge.from)].name);
  }
  return out;
}

// null: not planned.
const PlannedLayer* plannedOf(const Layers& layers, std::size_t layer) {
  return layers.plan && layer < layers.plan->layers.size() ? &layers.plan->layers[layer] : nullptr;
}

void printJson(const Layers& layers) {
  std::int64_t parameters = 0;
  for (std::size_t i = 0; i < layers.rows.size(); ++i) {
    const LayerRow& row = layers.rows[i];
    parameters += row.parameters;
    JsonLine line("layer");
    line.add("layer", row.name)
        .add("kind", row.kind)
        .addRaw("inputs", jsonTexts(inputsOf(layers, i)));
    line.add("output", row.output).add("parameters", row.parameters);
    line.add("forward_flops", row.forwardFlops).add("activation_bytes", row.activationBytes);
    if (const PlannedLayer* planned = plannedOf(layers, i))
      line.add("stage", planned->stage).add("state_bytes", planned->stateBytes);
    line.print();
  }
  JsonLine("model").add("loss", layers.graph.loss).add("parameters", parameters).print();
}

void printText(const Layers& layers) {
  Table table{{"layer", "kind", "takes", "output", "parameters", "FLOP", "memory"},
              {false, false, false, true, true, true, true},
              {}};
  if (layers.plan) {
    table.header.insert(table.header.end(), {"stage", "state on a rank"});
    table.right.insert(table.right.end(), {true, true});
  }
  std::int64_t parameters = 0;
  for (std::size_t i = 0; i < layers.rows.size(); ++i) {
    const LayerRow& row = layers.rows[i];
    parameters += row.parameters;
    table.rows.push_back({row.name, row.kind,
                          fmt::format("{}", fmt::join(inputsOf(layers, i), ", ")), row.output,
                          fmt::format("{}", row.parameters), flopText(row.forwardFlops),
                          bytesText(static_cast<double>(row.activationBytes))});
    if (const PlannedLayer* planned = plannedOf(layers, i)) {
      table.rows.back().push_back(fmt::format("{}", planned->stage));
      table.rows.back().push_back(bytesText(static_cast<double>(planned->stateBytes)));
    }
  }
  put(stdout,
      fmt::format("{}{} parameters; loss: {}\n", table.text(), parameters, layers.graph.loss));
}

}  // namespace

int layersCommand(const Globals&, const Arguments& arguments) {
  const bool json = arguments.has("json");
  const auto layers = read(arguments);
  if (!layers.ok()) {
    report(layers.error(), json);
    return exitCodeOf(layers.error());
  }
  if (json)
    printJson(*layers);
  else
    printText(*layers);
  return kSucceeded;
}

}  // namespace lockstep::app::cli
