#include "engine/planner/layer_placement.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "engine/ir/ops.h"
#include "engine/passes/stages.h"
#include "engine/plan/pieces.h"
#include "engine/planner/pricing.h"
#include "engine/planner/request_checks.h"

namespace lockstep::planner {
namespace {

// Calls `visit` with the index of its layer and each node.
template <typename Visit>
void forEachNode(const ir::ModelGraph& model, Visit visit) {
  std::size_t layer = 0;
  for (std::size_t i = 0; i < model.graph.nodes().size(); ++i) {
    while (layer + 1 < model.layers.size() &&
           static_cast<ir::NodeId>(i) >= model.layers[layer + 1].first) {
      ++layer;
    }
    visit(layer, model.graph.nodes()[i]);
  }
}

// Which values have gradients: those that depend on a parameter that is trained, or with
// `ofFrozen` on a frozen one.
std::vector<bool> valuesWithGradients(const ir::ModelGraph& model, bool ofFrozen) {
  std::set<std::string_view> trained;
  for (const ir::Parameter& one : model.parameters)
    if (ofFrozen || !one.frozen) trained.insert(one.name);
  std::vector<bool> out(model.graph.values().size(), false);
  for (const ir::Node& node : model.graph.nodes()) {
    const bool has = node.op == ir::Op::kState
                         ? trained.contains(ir::textAttr(node.attrs, "state"))
                         : std::any_of(node.inputs.begin(), node.inputs.end(), [&](auto input) {
                             return out[static_cast<std::size_t>(input)];
                           });
    for (const ir::ValueId output : node.outputs) out[static_cast<std::size_t>(output)] = has;
  }
  return out;
}

// The part of a node's work that is done: a third is its forward pass, the rest the gradients of
// its inputs in equal parts, of which frozen ones have none.
class WorkDone {
 public:
  explicit WorkDone(const ir::ModelGraph& model)
      : all_(valuesWithGradients(model, true)), trained_(valuesWithGradients(model, false)) {}
  double of(const ir::Node& node) const {
    const double all = count(node, all_);
    return all == 0 ? 1 : (1 + 2 * count(node, trained_) / all) / 3;
  }

 private:
  static double count(const ir::Node& node, const std::vector<bool>& gradients) {
    return static_cast<double>(
        std::count_if(node.inputs.begin(), node.inputs.end(),
                      [&](auto input) { return gradients[static_cast<std::size_t>(input)]; }));
  }
  const std::vector<bool> all_, trained_;
};

// Seconds of a layer's forward and backward pass, divided by three: of its forward pass, by the
// roofline, where nothing is frozen.
std::vector<double> layerCosts(const ir::ModelGraph& model, const cluster::DeviceRates& rates) {
  const WorkDone done(model);
  std::vector<double> costs(model.layers.size(), 0);
  forEachNode(model, [&](std::size_t layer, const ir::Node& node) {
    if (node.inputs.empty() || ir::info(node.op).isView) return;
    std::vector<ir::TensorType> inputs, outputs;
    for (const ir::ValueId input : node.inputs) inputs.push_back(model.graph.value(input).type);
    for (const ir::ValueId output : node.outputs) outputs.push_back(model.graph.value(output).type);
    const ir::OpCost work = ir::info(node.op).cost(node, inputs, outputs);
    const double seconds = std::max(work.flops / rates.flopsPerSecond,
                                    static_cast<double>(work.bytes) / rates.bytesPerSecond) +
                           rates.launchSeconds;
    costs[layer] += seconds * done.of(node);
  });
  return costs;
}

// Which layer has a parameter or statistic of this name.
std::map<std::string, std::size_t, std::less<>> layersOfStates(const ir::ModelGraph& model) {
  std::map<std::string, std::size_t, std::less<>> out;
  forEachNode(model, [&](std::size_t layer, const ir::Node& node) {
    if (node.op == ir::Op::kState) out.emplace(ir::textAttr(node.attrs, "state"), layer);
  });
  return out;
}

}  // namespace

Result<std::vector<int>> stagesOfLayers(const PlanContext& context, std::string_view precision) {
  const PlanRequest& request = context.request;
  if (!request.pins.empty()) return pinnedStages(request, context.stages());
  std::vector<std::vector<double>> costs;  // by stage, which waits for its slowest rank
  for (int stage = 0; stage < context.stages(); ++stage) {
    std::vector<int> ranks;
    for (int rank = 0; rank < context.mesh().workers(); ++rank)
      if (context.mesh().stageOf(rank) == stage) ranks.push_back(rank);
    const cluster::DeviceRates rates = ratesOf(ranks, context.cluster, precision, context.cost);
    costs.push_back(layerCosts(request.step, rates));
  }
  return passes::balanceStages(costs);
}

Result<std::vector<LayerPlacement>> layerPlacements(const PlanRequest& request,
                                                    const cluster::Cluster& cluster,
                                                    const CostModel& cost, const plan::Plan& plan) {
  std::vector<LayerPlacement> out(request.step.layers.size());
  const PlanContext context{request, cluster, cost, {}, std::nullopt};
  if (context.isPipeline()) {
    LOCKSTEP_ASSIGN(const std::vector<int> stages, stagesOfLayers(context, plan.precision));
    for (std::size_t i = 0; i < out.size(); ++i) out[i].stage = stages[i];
  }
  const auto layers = layersOfStates(request.step);
  for (int rank = 0; rank < plan.mesh.size(); ++rank) {
    std::vector<std::int64_t> held(out.size(), 0);
    for (const plan::HeldPiece& one : plan::piecesHeldBy(plan, rank)) {
      const auto layer = layers.find(one.member->name);
      if (layer != layers.end()) held[layer->second] += one.piece.bytes();
    }
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i].stateBytes = std::max(out[i].stateBytes, held[i]);
  }
  return out;
}

}  // namespace lockstep::planner
