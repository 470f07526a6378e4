#include "engine/planner/planner.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "engine/base/hash.h"
#include "engine/passes/compress.h"
#include "engine/passes/distribute.h"
#include "engine/passes/order_sums.h"
#include "engine/passes/programs.h"
#include "engine/passes/recompute.h"
#include "engine/passes/serve_tables.h"
#include "engine/passes/stages.h"
#include "engine/planner/lower.h"
#include "engine/planner/pipeline.h"
#include "engine/planner/pricing.h"
#include "engine/planner/strategies.h"

namespace lockstep::planner {
namespace {

constexpr std::string_view kDataAxis = "data", kModelAxis = "model";

Error numberToChange(std::string what, std::string why, std::string next) {
  Error error = invalidArgument("{}", what);
  error.why = std::move(why);
  error.next = std::move(next);
  return error;
}

Result<Strategy> strategyOf(const PlanRequest& request, const cluster::Cluster& cluster) {
  const Strategy* strategy = findStrategy(request.strategy);
  if (strategy == nullptr) {
    std::vector<std::string_view> known;
    for (const Strategy& other : strategies()) known.push_back(other.name);
    return numberToChange(fmt::format("unknown strategy {}", request.strategy), "",
                          fmt::format("strategy.kind is one of {}", fmt::join(known, ", ")));
  }
  if (cluster.devices.size() != static_cast<std::size_t>(cluster.mesh.size())) {
    return numberToChange(
        fmt::format("the mesh has {} ranks, the cluster {} devices", cluster.mesh.size(),
                    cluster.devices.size()),
        "", "give each rank one device");
  }
  for (const cluster::Axis& axis : cluster.mesh.axes()) {
    if (axis.name != kDataAxis && axis.name != kModelAxis && axis.name != cluster::kStageAxis &&
        axis.size > 1) {
      return numberToChange(
          fmt::format("strategy {} cannot use mesh axis {}", request.strategy, axis.name),
          "the batch is divided over axis data, each layer over axis model, and the layers among "
          "the stages of axis stage",
          "put all ranks on these");
    }
  }
  if (strategy->oneNode) {
    for (const cluster::Device& device : cluster.devices) {
      if (device.node == cluster.devices[0].node) continue;
      return numberToChange(
          fmt::format("strategy {} keeps all ranks in one node", strategy->name),
          fmt::format("ranks are on {} and {}", cluster.devices[0].node, device.node),
          fmt::format("set strategy.kind to {}",
                      strategy->servers ? "parameter-server" : "multi-worker-mirrored"));
    }
  }
  return *strategy;
}

Status checkBatch(const ir::ModelGraph& model, int ranks, std::string_view what) {
  if (model.batch >= ranks) return {};
  return numberToChange(
      fmt::format("a global {} of {} cannot be divided over {} ranks", what, model.batch, ranks),
      "every rank needs a sample of each step",
      fmt::format("raise the {} to at least {} or use fewer ranks", what, ranks));
}

Status checkShares(const PlanRequest& request, int ranks, bool pipeline) {
  if (request.shares.empty()) return {};
  if (request.shares.size() != static_cast<std::size_t>(ranks)) {
    return numberToChange(
        fmt::format("strategy.shares has {} numbers, and the batch is divided over {} ranks",
                    request.shares.size(), ranks),
        "", fmt::format("give {} shares, or none for even ones", ranks));
  }
  if (pipeline) {
    return numberToChange("a pipeline's batch cannot be divided by shares",
                          "the ranks of a pipeline's stage have equal shares", "leave strategy.shares out");
  }
  for (const auto& [what, field, samples] :
       {std::tuple{"step", "training.batch", request.step.batch},
        std::tuple{"evaluation step", "training.evaluate_batch", request.evaluate.batch}}) {
    const std::vector<std::int64_t> cuts = passes::cutsBy(samples, request.shares);
    for (std::size_t rank = 0; rank + 1 < cuts.size(); ++rank) {
      if (cuts[rank + 1] > cuts[rank]) continue;
      return numberToChange(
          fmt::format("share {} of {} leaves rank {} no sample of {}", request.shares[rank],
                      fmt::join(request.shares, ", "), rank, samples),
          fmt::format("every rank needs a sample of each {}", what),
          fmt::format("raise its share in strategy.shares, or {}", field));
    }
  }
  return {};
}

Status checkModels(const ir::ModelGraph& step, const ir::ModelGraph& evaluate) {
  const auto same = [](const ir::Parameter& a, const ir::Parameter& b) {
    return a.name == b.name && a.shape == b.shape;
  };
  if (step.compute != evaluate.compute ||
      !std::equal(step.parameters.begin(), step.parameters.end(), evaluate.parameters.begin(),
                  evaluate.parameters.end(), same) ||
      !std::equal(step.statistics.begin(), step.statistics.end(), evaluate.statistics.begin(),
                  evaluate.statistics.end(), same)) {
    return makeError(Code::kInternal, "step and evaluation are not of one model");
  }
  for (const ir::Node& node : evaluate.graph.nodes()) {
    if (node.op == ir::Op::kStore) {
      return makeError(Code::kInternal, "the evaluation of {} replaces state", evaluate.graph.name());
    }
  }
  return {};
}

// Statistics of a group of samples are made where all of them are, or of all ranks' samples together.
Status checkStatistics(const ir::ModelGraph& model, int microBatches, int stages,
                       const std::vector<std::int64_t>& cuts) {
  for (const ir::Node& node : model.graph.nodes()) {
    if (node.op != ir::Op::kBatchMoments) continue;
    const std::string layer = node.name.substr(0, node.name.rfind('.'));
    if (microBatches > 1) {
      return numberToChange(
          fmt::format("batch norm {} cannot be trained in {} micro-batches", layer, microBatches),
          "its statistics are those of the whole batch, and would become those of its parts",
          "set strategy.micro_batches to 1, or use layer_norm instead of batch norm");
    }
    if (stages > 1) {
      return numberToChange(
          fmt::format("batch norm {} cannot be trained in a pipeline of {} stages", layer, stages),
          "a pipeline passes on micro-batches, and its statistics would become theirs",
          "put all ranks on axis data, or use layer_norm instead of batch norm");
    }
    const std::int64_t groups = model.graph.value(node.outputs[0]).type.shape[0];
    const std::int64_t samples = model.batch / groups;
    for (std::size_t i = 0; groups > 1 && i < cuts.size(); ++i) {
      if (cuts[i] % samples == 0) continue;
      const std::size_t ranks = cuts.size() - 1;
      return numberToChange(
          fmt::format("batch norm {} has {} statistics groups of {} samples, and {} ranks cut the "
                      "batch of {} within one, at {}",
                      layer, groups, samples, ranks, model.batch, cuts[i]),
          "the statistics of a group are made where all of its samples are",
          fmt::format("use a number of ranks that divides {}, or set the layer's groups to 1 for "
                      "statistics over all ranks, or to a multiple of {} that divides the batch",
                      groups, ranks));
    }
  }
  return {};
}

// The pass and the proof that it broke nothing.
Result<ir::Graph> checked(std::string_view pass, Result<ir::Graph> graph) {
  if (!graph.ok()) return graph;
  const Status status = ir::verify(*graph);
  if (status.ok()) return graph;
  return makeError(Code::kInternal, "pass {} broke graph {}: {}", pass, graph->name(),
                   status.error().text());
}

// The parameters that axis `model` divides, each in equal parts.
passes::Sources tensorSplits(const std::vector<ir::Parameter>& parameters, int ranks) {
  passes::Sources splits;
  for (const ir::Parameter& parameter : parameters) {
    if (!parameter.isDivided(ranks)) continue;
    const std::int64_t extent = parameter.shape[static_cast<std::size_t>(parameter.splitDim)];
    const ir::AxisPlacement split{ir::AxisPlacement::Kind::kSplit, parameter.splitDim,
                                  passes::evenCuts(extent, ranks)};
    splits[parameter.name] = split;
    splits[fmt::format("{}{}", passes::kGradient, parameter.name)] = split;
  }
  return splits;
}

Status checkTensor(const std::vector<ir::Parameter>& parameters, int ranks) {
  if (ranks == 1) return {};
  bool any = false;
  for (const ir::Parameter& parameter : parameters) {
    if (!parameter.isDivided(ranks)) continue;
    any = true;
    if (parameter.splitParts % ranks == 0) continue;
    return numberToChange(
        fmt::format("{} has {} parts that stay whole (heads or features), which {} ranks of axis "
                    "model cannot share evenly",
                    parameter.name, parameter.splitParts, ranks),
        "every rank of the axis computes an equal part of each divided layer",
        fmt::format("use a number of ranks on axis model that divides {}", parameter.splitParts));
  }
  if (any) return {};
  return numberToChange("this model has no layers that tensor parallelism divides",
                        "it divides transformer blocks and pairs of dense layers",
                        "put all ranks on axis data");
}

// Says what a group holds and where, so that the residuals of a checkpoint are taken for the same
// gradients alone.
std::string contentsOf(const passes::Group& group) {
  std::string all = fmt::format("{}", group.count);
  for (const passes::Group::Member& member : group.members)
    all += fmt::format(" {}@{}", member.name, member.element);
  return fmt::format("group.{:016x}", stableHash(all));
}

// A server has whole groups, and its workers all layers.
Status checkServers(const Strategy& strategy, const cluster::Mesh& mesh) {
  if (strategy.servers != (mesh.servers() > 0)) {
    return numberToChange(
        strategy.servers
            ? fmt::format("strategy {} needs a server", strategy.name)
            : fmt::format("strategy {} has no use for {} servers", strategy.name, mesh.servers()),
        "", strategy.servers ? "set strategy.servers to at least 1" : "set strategy.servers to 0");
  }
  if (strategy.oneServer && mesh.servers() > 1) {
    return numberToChange(fmt::format("strategy {} has one server, not {}", strategy.name,
                                      mesh.servers()),
                          "", "set strategy.servers to 1, or strategy.kind to parameter-server");
  }
  for (const cluster::Axis& axis : mesh.axes()) {
    if (!strategy.servers || axis.name == kDataAxis || axis.size == 1) continue;
    return numberToChange(
        fmt::format("strategy {} cannot use mesh axis {}", strategy.name, axis.name),
        "a server adds up the gradients of workers that have the same parameters",
        "put all workers on axis data: set strategy.tensor and strategy.stages to 1");
  }
  return {};
}

// What ranks update by themselves is averaged by whole groups.
Status checkLocal(const Strategy& strategy, const cluster::Mesh& mesh) {
  if (!strategy.local || mesh.stages() == 1) return {};
  return numberToChange(
      fmt::format("strategy {} cannot use mesh axis {}", strategy.name, cluster::kStageAxis),
      "each rank updates all layers by itself", "set strategy.stages to 1");
}

// Gradients that every rank adds up itself can be coded.
Result<std::optional<passes::Compression>> compressionOf(const PlanRequest& request,
                                                         const Strategy& strategy, int ranks) {
  if (request.compression == "none") return std::optional<passes::Compression>();
  const auto coding = ir::codingFromName(request.compression);
  if (!coding) {
    return numberToChange(fmt::format("unknown compression {}", request.compression), "",
                          "strategy.compression is one of none, fp16, bf16, int8, top-k");
  }
  if (!(request.topKRatio > 0 && request.topKRatio <= 1)) {
    return numberToChange(fmt::format("top-k cannot send {} of the gradients", request.topKRatio), "",
                          "set strategy.top_k_ratio to more than 0 and at most 1");
  }
  if (strategy.servers || strategy.local) {
    return numberToChange(
        fmt::format("strategy {} cannot send gradients as {}", strategy.name, request.compression),
        strategy.local ? "its ranks exchange parameters, not gradients"
                       : "its servers add up whole gradients as they come",
        "set strategy.compression to none, or strategy.kind to multi-worker-mirrored");
  }
  if (ranks == 1) return std::optional<passes::Compression>();
  return std::optional(passes::Compression{*coding, request.topKRatio});
}

Status checkOrder(const PlanRequest& request, const Strategy& strategy, bool pipeline, int ranks) {
  if (!request.inOrder) return {};
  if (strategy.servers || strategy.local || strategy.splitOptimizer || pipeline || request.compression != "none") {
    return numberToChange(
        fmt::format("strategy {} with compression {} cannot add up gradients in one order", request.strategy,
                    request.compression),
        "every rank adds up all parts of the batch, one after another",
        "set strategy.deterministic_parts to 0, or strategy.kind to multi-worker-mirrored without stages "
        "and compression");
  }
  if (request.shares.empty() && request.step.batch % ranks == 0) return {};
  return numberToChange(
      fmt::format("a micro-batch of {} cannot be divided into equal parts over {} ranks", request.step.batch, ranks),
      "gradients are added up in one order of equal parts",
      "use a number of ranks that divides strategy.deterministic_parts, and leave strategy.shares out");
}

Status checkStaleness(const PlanRequest& request, const cluster::Mesh& mesh) {
  if (request.staleness == 0) return {};
  if (mesh.servers() == 0) {
    return numberToChange(
        fmt::format("strategy {} takes each step together", request.strategy),
        "without servers ranks exchange gradients with each other",
        "set strategy.staleness to 0, or strategy.kind to parameter-server");
  }
  if (request.microBatches > 1) {
    return numberToChange(
        fmt::format("a worker's step by itself is not divided into {} micro-batches",
                    request.microBatches),
        "servers take what a worker sends as one update", "set strategy.micro_batches to 1");
  }
  for (const ir::Node& node : request.step.graph.nodes()) {
    if (node.op != ir::Op::kBatchMoments) continue;
    return numberToChange(
        fmt::format("batch norm {} cannot be trained by workers that do not wait for each other",
                    node.name.substr(0, node.name.rfind('.'))),
        "its statistics are those of all workers' samples",
        "set strategy.staleness to 0, or use layer_norm instead of batch norm");
  }
  return {};
}

// Tables on servers, and the dense part with the workers, which all-reduce its gradients.
Status checkDense(const PlanRequest& request, const Strategy& strategy, bool tables) {
  if (request.dense == "servers") return {};
  if (request.dense != "all-reduce") {
    return numberToChange(fmt::format("unknown place {} of the dense part", request.dense), "",
                          "strategy.dense is one of servers, all-reduce");
  }
  if (!strategy.servers) {
    return numberToChange(fmt::format("strategy {} has no servers for tables", request.strategy), "",
                          "set strategy.dense to servers, or strategy.kind to parameter-server");
  }
  if (request.staleness != 0) {
    return numberToChange("workers that all-reduce the dense part take each step together",
                          "an all-reduce waits for all of them",
                          "set strategy.staleness to 0, or strategy.dense to servers");
  }
  if (request.training.optimizer.clipNorm > 0) {
    return numberToChange("gradients of which servers and workers have a part each are not clipped",
                          "nobody knows the length of all of them",
                          "set training.optimizer.clip_norm to 0, or strategy.dense to servers");
  }
  if (tables) return {};
  return numberToChange("this model has no table for servers to hold",
                        "a table is read by embeddings alone, by fewer ids in a batch than it has rows",
                        "set strategy.dense to servers, or strategy.kind to multi-worker-mirrored");
}

Status checkStages(const PlanRequest& request, int stages, int ranks) {
  if (stages == 1) return {};
  const std::size_t layers = request.step.layers.size();
  if (static_cast<std::size_t>(stages) > layers) {
    return numberToChange(fmt::format("{} layers cannot make {} stages", layers, stages),
                          "every stage needs a layer",
                          fmt::format("use at most {} stages", layers));
  }
  if (request.strategy == "placement" && request.pins.empty()) {
    return numberToChange("strategy placement has no layers pinned", "",
                          "list them in strategy.pins, or set strategy.kind to pipeline");
  }
  struct Batch {
    std::string_view what, field;
    std::int64_t size, parts;
  };
  for (const auto& [what, field, size, parts] :
       {Batch{"micro-batch", "training.batch", request.step.batch, request.microBatches},
        Batch{"evaluation batch", "training.evaluate_batch", request.evaluate.batch, 1}}) {
    if (size % ranks == 0) continue;
    return numberToChange(
        fmt::format("a {} of {} cannot be divided evenly over {} ranks", what, size, ranks),
        "the ranks of a pipeline's stage have equal shares",
        fmt::format("set {} to {}", field, (size + ranks - 1) / ranks * ranks * parts));
  }
  const auto schedules = pipelineSchedules();
  if (std::find(schedules.begin(), schedules.end(), request.schedule) == schedules.end()) {
    return numberToChange(fmt::format("unknown schedule {}", request.schedule), "",
                          fmt::format("strategy.schedule is one of {}", fmt::join(schedules, ", ")));
  }
  if (request.schedule == "zb-h1" && request.recompute != "none") {
    return numberToChange(
        "schedule zb-h1 gains nothing from activations that are made again",
        "what is made again waits, as what is kept does, for the gradients of weights",
        "set strategy.recompute to none, or strategy.schedule to 1f1b");
  }
  return {};
}

// A layer without a pin is where the one before it is.
Result<std::vector<int>> pinnedStages(const PlanRequest& request, int stages) {
  std::map<std::string_view, int> pins;
  for (const auto& [layer, stage] : request.pins) {
    const auto known = std::find_if(request.step.layers.begin(), request.step.layers.end(),
                                    [&](const auto& one) { return one.name == layer; });
    if (known == request.step.layers.end()) {
      std::vector<std::string_view> names;
      for (const auto& one : request.step.layers) names.push_back(one.name);
      return numberToChange(fmt::format("strategy.pins names layer {}, which the model does not have",
                                        layer),
                            "", fmt::format("its layers are {}", fmt::join(names, ", ")));
    }
    if (stage < 0 || stage >= stages) {
      return numberToChange(fmt::format("layer {} is pinned to stage {} of {}", layer, stage, stages),
                            "", fmt::format("use stages 0 to {}", stages - 1));
    }
    pins[known->name] = stage;
  }
  std::vector<int> stageOfLayer;
  std::set<int> used;
  for (const auto& layer : request.step.layers) {
    const auto pin = pins.find(layer.name);
    const int before = stageOfLayer.empty() ? 0 : stageOfLayer.back();
    stageOfLayer.push_back(pin == pins.end() ? before : pin->second);
    used.insert(stageOfLayer.back());
  }
  for (int stage = 0; stage < stages; ++stage) {
    if (used.contains(stage)) continue;
    return numberToChange(fmt::format("no layer is pinned to stage {} of {}", stage, stages),
                          "every stage needs a layer",
                          fmt::format("pin one to it, or use {} stages", used.size()));
  }
  if (request.microBatches > 1 && !std::is_sorted(stageOfLayer.begin(), stageOfLayer.end())) {
    return numberToChange("layers pinned back and forth cannot be played in micro-batches",
                          "a stage passes micro-batches on to later ones",
                          "set strategy.micro_batches to 1, or pin layers to stages in their order");
  }
  return stageOfLayer;
}

// Seconds of a layer's forward pass by the roofline.
std::vector<double> layerCosts(const ir::ModelGraph& model, const CostModel& cost) {
  std::vector<double> costs(model.layers.size(), 0);
  std::size_t layer = 0;
  for (std::size_t i = 0; i < model.graph.nodes().size(); ++i) {
    while (layer + 1 < costs.size() && static_cast<ir::NodeId>(i) >= model.layers[layer + 1].first) {
      ++layer;
    }
    const ir::Node& node = model.graph.nodes()[i];
    if (node.inputs.empty() || ir::info(node.op).isView) continue;
    std::vector<ir::TensorType> inputs, outputs;
    for (const ir::ValueId input : node.inputs) inputs.push_back(model.graph.value(input).type);
    for (const ir::ValueId output : node.outputs) outputs.push_back(model.graph.value(output).type);
    const ir::OpCost work = ir::info(node.op).cost(node, inputs, outputs);
    costs[layer] += std::max(work.flops / cost.flopsPerSecond,
                             static_cast<double>(work.bytes) / cost.bytesPerSecond) +
                    cost.launchSeconds;
  }
  return costs;
}

class Maker {
 public:
  Maker(const PlanRequest& request, const cluster::Cluster& cluster, const CostModel& cost)
      : request_(request),
        cluster_(cluster),
        cost_(cost),
        ranks_(cluster.mesh.axisSize(kDataAxis)),
        modelRanks_(cluster.mesh.axisSize(kModelAxis)),
        stages_(cluster.mesh.stages()),
        servers_(cluster.mesh.servers()),
        stateBytes_(static_cast<std::size_t>(stages_), 0) {}

  Result<plan::Plan> run() {
    LOCKSTEP_ASSIGN(const Strategy strategy, strategyOf(request_, cluster_));
    LOCKSTEP_TRY(checkBatch(request_.step, ranks_, "batch"));
    LOCKSTEP_TRY(checkBatch(request_.evaluate, ranks_, "evaluation batch"));
    LOCKSTEP_TRY(checkShares(request_, ranks_, isPipeline()));
    LOCKSTEP_TRY(checkModels(request_.step, request_.evaluate));
    LOCKSTEP_TRY(checkTensor(request_.step.parameters, modelRanks_));
    LOCKSTEP_TRY(checkServers(strategy, cluster_.mesh));
    LOCKSTEP_TRY(checkLocal(strategy, cluster_.mesh));
    LOCKSTEP_TRY(checkStaleness(request_, cluster_.mesh));
    LOCKSTEP_TRY(checkStages(request_, isPipeline() ? stages_ : 1, ranks_));
    LOCKSTEP_ASSIGN(compression_, compressionOf(request_, strategy, ranks_));
    LOCKSTEP_TRY(checkOrder(request_, strategy, isPipeline(), ranks_));
    const DType dtype = request_.step.compute;
    plan_.name = request_.step.graph.name();
    plan_.strategy = request_.strategy;
    plan_.mesh = cluster_.mesh;
    plan_.precision = dtype == DType::kF64 ? "fp64" : "fp32";
    plan_.globalBatch = request_.step.batch * request_.microBatches;
    plan_.microBatches = request_.microBatches;
    plan_.staleness = request_.staleness;
    plan_.batchCuts = cuts(request_.step.batch);
    plan_.evaluateCuts = cuts(request_.evaluate.batch);
    LOCKSTEP_TRY(checkStatistics(request_.step, request_.microBatches, isPipeline() ? stages_ : 1,
                                 plan_.batchCuts));

    ir::ModelGraph model = request_.step, evaluation = request_.evaluate;
    std::vector<std::string> training{"step"};
    if (isPipeline()) {
      LOCKSTEP_ASSIGN(const std::vector<int> stageOfLayer,
                      request_.pins.empty()
                          ? passes::balanceStages(layerCosts(model, cost_), stages_)
                          : pinnedStages(request_, stages_));
      passes::assignStages(model, stageOfLayer);
      passes::assignStages(evaluation, stageOfLayer);
      pipeline_ = pipelineSchedule(request_.schedule, stages_, request_.microBatches);
      plan_.schedule = pipeline_.plays;
      training = {"forward", "backward"};
      if (pipeline_.weightsApart) training.emplace_back("weights");
    } else if (request_.staleness != 0) {
      training.insert(training.end(), plan::kConversation.begin(), plan::kConversation.end());
      plan_.schedule.push_back({{"step", 0, 0}});
      plan_.schedule.resize(static_cast<std::size_t>(stages_), conversations());
    } else {
      std::vector<plan::Play> plays;
      for (int micro = 0; micro < request_.microBatches; ++micro) plays.push_back({"step", micro, 0});
      if (strategy.local) plays.push_back({"average", 0, 0});
      else if (request_.microBatches > 1 || request_.inOrder) plays.push_back({"update", 0, 0});
      plan_.schedule.assign(static_cast<std::size_t>(stages_), std::move(plays));
    }

    const std::int64_t bucketBytes =
        request_.bucketBytes > 0
            ? request_.bucketBytes
            : passes::chooseBucketBytes(cluster_.link.latency, cluster_.link.bytesPerSecond);
    passes::Grouping grouping{.bucketBytes = bucketBytes};
    grouping.local = strategy.local;
    grouping.apart = request_.staleness != 0;
    if (grouping.local || grouping.apart) grouping.metricsInGroup = false;
    if (strategy.splitOptimizer && ranks_ > 1) {
      grouping.parts = ranks_;
      grouping.metricsInGroup = false;
    }
    if (compression_) grouping.metricsInGroup = false;  // they stay exact
    grouping.inOrder = request_.inOrder;
    grouping.accumulate = !strategy.local && (request_.microBatches > 1 || isPipeline() || request_.inOrder);
    if (modelRanks_ > 1) {
      grouping.agree.emplace_back(kModelAxis);
      grouping.dividedAlong = kModelAxis;
    }
    if (isPipeline()) grouping.agree.emplace_back(cluster::kStageAxis);
    if (stages_ > 1) grouping.everywhere = ir::kEveryStage;
    for (const ir::Parameter& parameter : model.parameters) {
      if (parameter.isDivided(modelRanks_)) grouping.divided.insert(parameter.name);
    }
    LOCKSTEP_TRY(serve(model, evaluation, strategy, grouping));
    splits_ = tensorSplits(model.parameters, modelRanks_);
    for (const ir::Node& node : model.graph.nodes()) {
      if (node.op != ir::Op::kEmbedding) continue;
      const ir::Node& table = model.graph.node(model.graph.value(node.inputs[0]).producer);
      const auto split = splits_.find(ir::textAttr(table.attrs, "state"));
      if (split != splits_.end()) splits_[node.name + ".grad.table"] = split->second;
    }
    LOCKSTEP_ASSIGN(model, passes::divideLoss(model, modelRanks_));
    LOCKSTEP_ASSIGN(evaluation, passes::divideLoss(evaluation, modelRanks_));
    LOCKSTEP_ASSIGN(const passes::Recompute what, passes::recomputeFromName(request_.recompute));
    LOCKSTEP_ASSIGN(ir::Graph train, checked("differentiate", passes::trainGraph(model)));
    LOCKSTEP_ASSIGN(train, divided(checked("recompute", passes::recompute(train, what))));
    LOCKSTEP_ASSIGN(const passes::StepProgram step,
                    passes::stepProgram(train, request_.training, grouping));
    LOCKSTEP_ASSIGN(ir::Graph evaluate, divided(passes::evaluateGraph(evaluation)));
    LOCKSTEP_ASSIGN(evaluate, passes::evaluateProgram(evaluate, step,
                                                              isPipeline() ? ir::kEveryStage : 0));
    LOCKSTEP_ASSIGN(ir::Graph init, divided(passes::initGraph(model, request_.training.seed)));
    LOCKSTEP_ASSIGN(init, passes::initProgram(init, step, request_.training));
    LOCKSTEP_TRY(addState(step, strategy, dtype));

    LOCKSTEP_TRY(addPrograms({"init"}, init, states()));
    // What is added up is a part of the sum already, or will be one when it is used.
    const bool inParts = !grouping.accumulate || strategy.splitGradients;
    LOCKSTEP_TRY(addTraining(training, step.graph,
                             sources(request_.step.graph, plan_.batchCuts, inParts)));
    if (step.last) {
      LOCKSTEP_TRY(addTraining({strategy.local ? "average" : "update"}, *step.last, states()));
    }
    LOCKSTEP_TRY(addPrograms({"evaluate"}, evaluate,
                             sources(request_.evaluate.graph, plan_.evaluateCuts, false)));
    plan_.stateBytes = *std::max_element(stateBytes_.begin(), stateBytes_.end());
    return std::move(plan_);
  }

 private:
  using Kind = ir::AxisPlacement::Kind;

  // Tables that batches touch in few rows are on the servers by rows; the length of gradients that a worker
  // sends by itself is known only where it has all of them.
  Status serve(ir::ModelGraph& model, ir::ModelGraph& evaluation, const Strategy& strategy,
               passes::Grouping& grouping) {
    const bool apart = request_.staleness != 0;
    const std::int64_t share = largestShare(plan_.batchCuts);
    std::vector<std::string> tables;
    if (servers_ > 0 && !(apart && request_.training.optimizer.clipNorm > 0))
      tables = passes::tablesOf(model, share, servers_);
    LOCKSTEP_TRY(checkDense(request_, strategy, !tables.empty()));
    grouping.servers = request_.dense == "servers" ? servers_ : 0;
    if (tables.empty()) return {};
    LOCKSTEP_ASSIGN(model, passes::serveTables(model, tables, servers_, ranks_, apart ? 1 : ranks_, share));
    LOCKSTEP_ASSIGN(evaluation, passes::serveTables(evaluation, tables, servers_, ranks_, ranks_,
                                                    largestShare(plan_.evaluateCuts)));
    for (const ir::Parameter& parameter : model.parameters) {
      if (parameter.partOf.whole.empty()) continue;
      grouping.served.insert(parameter.name);
      parts_.emplace(parameter.name, parameter.partOf);
    }
    return {};
  }

  static std::int64_t largestShare(const std::vector<std::int64_t>& cuts) {
    std::int64_t largest = 0;
    for (std::size_t i = 0; i + 1 < cuts.size(); ++i) largest = std::max(largest, cuts[i + 1] - cuts[i]);
    return largest;
  }
  std::vector<std::int64_t> cuts(std::int64_t samples) const {
    return request_.shares.empty() ? passes::evenCuts(samples, ranks_) : passes::cutsBy(samples, request_.shares);
  }

  void addSlot(plan::StateSlot slot) {
    std::int64_t& bytes = stateBytes_[static_cast<std::size_t>(slot.stage)];
    slot.offset = bytes;
    bytes += plan::Plan::copyBytes(slot) * slot.copies;
    plan_.state.push_back(std::move(slot));
  }

  Status addState(const passes::StepProgram& step, const Strategy& strategy, DType dtype) {
    LOCKSTEP_ASSIGN(const std::vector<std::string> optimizer,
                    passes::optimizerStates(request_.training.optimizer));
    std::vector<std::string> kinds{"params"};
    kinds.insert(kinds.end(), optimizer.begin(), optimizer.end());
    for (const std::string& kind : kinds) {
      for (std::size_t k = 0; k < step.groups.size(); ++k) {
        const passes::Group& group = step.groups[k];
        plan::StateSlot slot;
        slot.name = fmt::format("{}.{}", kind, k);
        slot.stage = group.kind.stage;
        const bool split = ranks_ > 1 && (kind == "params" ? strategy.splitParameters
                                                           : strategy.splitOptimizer);
        if (split) slot.axis = kDataAxis;
        slot.type = {dtype, {split ? group.count / ranks_ : group.count}};
        for (const passes::Group::Member& member : group.members) {
          plan::StateSlot::Member placed;
          placed.name = member.name;
          placed.shape = member.shape;
          placed.element = member.element;
          if (const auto part = parts_.find(member.name); part != parts_.end()) {
            placed.name = part->second.whole;
            placed.firstRow = part->second.first;
            placed.rows = std::exchange(placed.shape[0], part->second.rows);
          }
          if (const auto found = splits_.find(member.name); found != splits_.end()) {
            placed.axis = kModelAxis;
            placed.dim = found->second.dim;
            placed.shape[static_cast<std::size_t>(placed.dim)] = found->second.cuts.back();
          }
          slot.members.push_back(std::move(placed));
        }
        addSlot(std::move(slot));
      }
    }
    for (std::size_t k = 0; k < step.statistics.size(); ++k) {
      plan::StateSlot slot;
      slot.name = fmt::format("stats.{}", k);
      slot.type = {dtype, {step.statistics[k].count}};
      for (const passes::Group::Member& member : step.statistics[k].members) {
        slot.members.push_back({.name = member.name, .shape = member.shape, .element = member.element});
      }
      addSlot(std::move(slot));
    }
    for (std::size_t k = 0; compression_ && k < step.groups.size(); ++k) {
      const passes::Group& group = step.groups[k];
      if (group.kind.table > 0) continue;  // what is exchanged of it is exact
      plan::StateSlot slot;
      slot.name = fmt::format("{}{}", passes::kResidual, k);
      slot.stage = group.kind.stage;
      slot.axis = kDataAxis;
      slot.type = {dtype, {group.count}};
      plan::StateSlot::Member all{.name = contentsOf(group), .shape = {group.count * ranks_ * modelRanks_}};
      if (modelRanks_ > 1) all.axis = kModelAxis;
      slot.members.push_back(std::move(all));
      addSlot(std::move(slot));
    }
    // Sums of micro-batches: each rank's own, or its part of all ranks'. They have no members:
    // between steps they are zero, and no checkpoint holds them.
    for (std::size_t k = 0; k < step.sums.size(); ++k) {
      plan::StateSlot slot;
      slot.name = step.sums[k].state;
      slot.stage = step.sums[k].stage;
      const bool split = ranks_ > 1 && strategy.splitGradients && k < step.groups.size();
      if (split) slot.axis = kDataAxis;
      slot.type = {dtype, {split ? step.sums[k].count / ranks_ : step.sums[k].count}};
      addSlot(std::move(slot));
    }
    return {};
  }

  // Each rank has its own wish to stop, and the sum counts them.
  passes::Sources states() const {
    passes::Sources sources;
    sources["stop"] = {Kind::kPartialSum, 0, {}};
    for (const plan::StateSlot& slot : plan_.state) {
      const bool isSum = slot.name.starts_with("sums.");
      const bool ofServer = servers_ > 0 && slot.stage > 0;
      if (slot.name.starts_with(passes::kResidual) || (slot.axis.empty() && (!isSum || ofServer))) continue;
      if (slot.axis.empty()) {
        if (!request_.inOrder) sources[slot.name] = sources[slot.name + ".zero"] = {Kind::kPartialSum, 0, {}};
        continue;
      }
      const ir::AxisPlacement parts{Kind::kSplit, 0,
                                    passes::evenCuts(plan_.groupCount(slot), ranks_)};
      sources[slot.name] = parts;
      // Gradients are reduced in parts where optimizer state lies in parts.
      if (isSum) {
        sources[slot.name + ".zero"] = parts;
      } else if (!slot.name.starts_with("params.")) {
        sources["grads" + slot.name.substr(slot.name.rfind('.'))] = parts;
      }
    }
    return sources;
  }
  // The model's inputs are divided along the batch.
  passes::Sources sources(const ir::Graph& model, const std::vector<std::int64_t>& cuts,
                          bool gradientsInParts) const {
    passes::Sources sources = states();
    if (!gradientsInParts) {
      std::erase_if(sources, [](const auto& one) { return one.first.starts_with("grads."); });
    }
    for (const ir::Node& node : model.nodes()) {
      if (node.op == ir::Op::kInput) sources[node.name] = {Kind::kSplit, 0, cuts};
    }
    return sources;
  }

  // One rank's share of the layers. The parts are equal, so that all ranks along the axis have one
  // graph; what differs is an expression of the coordinate.
  Result<ir::Graph> divided(Result<ir::Graph> logical) const {
    LOCKSTEP_ASSIGN(ir::Graph graph, checked("differentiate", std::move(logical)));
    if (modelRanks_ == 1) return graph;
    LOCKSTEP_ASSIGN(graph, checked("divide", passes::place(graph, kModelAxis, splits_)));
    LOCKSTEP_ASSIGN(graph, checked("remove-dead", passes::removeDead(graph)));
    return checked("localise", passes::localise(graph, cluster_.mesh, 0));
  }

  // Where gradients are coded, programs that send them whole too, for the first steps: the optimizer's state
  // and the model find their way while every gradient counts (Lin et al. 2018: warm-up).
  Status addTraining(const std::vector<std::string>& names, const ir::Graph& graph,
                     const passes::Sources& sources) {
    const std::size_t first = plan_.programs.size();
    LOCKSTEP_TRY(addPrograms(names, graph, sources));
    const auto codes = [](const plan::Program& program) {
      return std::any_of(program.bodies.begin(), program.bodies.end(), [](const plan::Body& body) {
        return std::any_of(body.steps.begin(), body.steps.end(),
                           [](const plan::Step& step) { return step.op == ir::Op::kEncode; });
      });
    };
    if (!compression_ || compression_->coding != ir::Coding::kTopK || request_.topKAfter == 0 ||
        std::none_of(plan_.programs.begin() + static_cast<std::ptrdiff_t>(first), plan_.programs.end(), codes)) {
      return {};
    }
    plan_.wholeSteps = request_.topKAfter;
    std::vector<std::string> whole;
    for (const std::string& name : names) whole.push_back(name + std::string(plan::Plan::kWhole));
    const auto coding = std::exchange(compression_, std::nullopt);
    LOCKSTEP_TRY(addPrograms(whole, graph, sources));
    compression_ = coding;
    return {};
  }

  // The programs that one graph becomes: one, or in a pipeline those a micro-batch is played in.
  Status addPrograms(const std::vector<std::string>& names, const ir::Graph& logical,
                     const passes::Sources& sources) {
    LOCKSTEP_ASSIGN(ir::Graph graph, checked("group", logical));
    LOCKSTEP_ASSIGN(graph, checked("fuse-epilogues", passes::fuseEpilogues(graph)));
    LOCKSTEP_ASSIGN(graph, checked("remove-dead", passes::removeDead(graph)));
    if (ranks_ > 1) {
      LOCKSTEP_ASSIGN(graph,
                      checked("place", passes::place(graph, kDataAxis, sources, servers_ > 0)));
      LOCKSTEP_ASSIGN(graph, checked("remove-dead", passes::removeDead(graph)));
    }
    if (stages_ > 1) return addStages(names, graph);
    plan::Program program;
    program.name = names[0];
    program.bodyOfRank = passes::localClasses(graph, cluster_.mesh);
    const int bodies =
        1 + *std::max_element(program.bodyOfRank.begin(), program.bodyOfRank.end());
    for (int body = 0; body < bodies; ++body) {
      const auto first = std::find(program.bodyOfRank.begin(), program.bodyOfRank.end(), body);
      const int rank = static_cast<int>(first - program.bodyOfRank.begin());
      LOCKSTEP_ASSIGN(const ir::Graph local, ofRank(graph, rank));
      LOCKSTEP_ASSIGN(plan::Body lowered,
                      lower(local, plan_.state, role(program.name, rank, bodies)));
      program.bodies.push_back(std::move(lowered));
    }
    plan_.programs.push_back(std::move(program));
    return {};
  }

  Result<ir::Graph> ofRank(const ir::Graph& placed, int rank) const {
    LOCKSTEP_ASSIGN(ir::Graph local, checked("localise", passes::localise(placed, cluster_.mesh, rank)));
    if (request_.inOrder && ranks_ > 1)
      return checked("order-sums", passes::orderSums(local, kDataAxis, ranks_));
    if (!compression_) return local;
    return checked("compress", passes::compress(local, kDataAxis, ranks_, *compression_));
  }

  // Of a server: one legal order of what comes as it comes.
  std::vector<plan::Play> conversations() const {
    std::vector<plan::Play> plays;
    for (const auto& [one, other] : {std::pair{0, 2}, std::pair{3, 4}}) {
      for (int worker = 0; worker < ranks_; ++worker) {
        for (int part = one; part <= other; ++part) {
          plays.push_back({std::string(plan::kConversation[static_cast<std::size_t>(part)]), 0, worker});
        }
      }
    }
    return plays;
  }

  Status addStages(const std::vector<std::string>& names, const ir::Graph& placed) {
    const bool conversations = names.size() > 1 && servers_ > 0;
    LOCKSTEP_ASSIGN(const std::vector<ir::Graph> graphs,
                    passes::cutStages(placed, cluster_.mesh, conversations));
    std::vector<plan::Program> programs(names.size());
    for (std::size_t part = 0; part < names.size(); ++part) {
      programs[part].name = names[part];
      programs[part].bodyOfRank.resize(static_cast<std::size_t>(cluster_.mesh.size()), -1);
    }
    const std::vector<int> classes = passes::localClasses(placed, cluster_.mesh);
    for (int stage = 0; stage < stages_; ++stage) {
      LOCKSTEP_ASSIGN(const ir::Graph graph,
                      checked("cut-stages", graphs[static_cast<std::size_t>(stage)]));
      std::map<int, std::size_t> bodies;  // by the workers' class
      for (int rank = 0; rank < cluster_.mesh.size(); ++rank) {
        if (cluster_.mesh.stageOf(rank) != stage) continue;
        const int kind = cluster_.mesh.isServer(rank) ? 0 : classes[static_cast<std::size_t>(rank)];
        const auto [known, isNew] = bodies.emplace(kind, programs[0].bodies.size());
        if (isNew) LOCKSTEP_TRY(addBodies(programs, graph, stage, rank));
        for (plan::Program& program : programs) {
          program.bodyOfRank[static_cast<std::size_t>(rank)] = static_cast<int>(known->second);
        }
      }
    }
    for (plan::Program& program : programs) plan_.programs.push_back(std::move(program));
    return {};
  }

  // One body of each program, of the rank's stage.
  Status addBodies(std::vector<plan::Program>& programs, const ir::Graph& graph, int stage, int rank) {
    LOCKSTEP_ASSIGN(const ir::Graph local, ofRank(graph, rank));
    const bool inParts = programs.size() > 1;
    const bool conversation = inParts && servers_ > 0;
    std::vector<int> partOf(local.nodes().size(), 0);
    int copies = 1;
    if (conversation && stage > 0) {
      // Workers play the first program, servers the others.
      partOf = passes::conversationParts(local);
      for (int& part : partOf) ++part;
      copies = ranks_;
    } else if (inParts && !conversation) {
      partOf = passes::trainingParts(local, pipeline_.weightsApart);
      copies = pipeline_.copies[static_cast<std::size_t>(stage)];
    }
    LOCKSTEP_ASSIGN(
        const passes::Programs split,
        passes::splitPrograms(local, partOf, static_cast<int>(programs.size()),
                              fmt::format("{}.{}", inParts ? "step" : programs[0].name, stage)));
    for (const passes::Carried& carried : split.carried) {
      plan::StateSlot slot;
      slot.name = carried.state;
      slot.type = carried.type;
      slot.stage = stage;
      slot.copies = copies;
      const auto known =
          std::find_if(plan_.state.begin(), plan_.state.end(),
                       [&](const plan::StateSlot& other) { return other.name == slot.name; });
      if (known == plan_.state.end()) {
        addSlot(std::move(slot));
      } else if (known->type != slot.type) {
        return makeError(Code::kInternal, "{} differs between ranks of stage {}", slot.name, stage);
      }
    }
    for (std::size_t part = 0; part < programs.size(); ++part) {
      LOCKSTEP_ASSIGN(const ir::Graph played, checked("split-programs", split.graphs[part]));
      LOCKSTEP_ASSIGN(plan::Body body,
                      lower(played, plan_.state, stageRole(programs[part], stage, rank)));
      programs[part].bodies.push_back(std::move(body));
    }
    return {};
  }

  // "stage.1"; "server.1"; "worker.22", as far as it is the first of its kind.
  std::string stageRole(const plan::Program& program, int stage, int rank) const {
    if (isPipeline()) return fmt::format("stage.{}", stage);
    if (stage > 0) return fmt::format("server.{}", stage - 1);
    return role(program.name, rank, 2);
  }
  bool isPipeline() const { return stages_ > 1 && servers_ == 0; }

  // "worker", or where shares differ "worker.22".
  std::string role(std::string_view program, int rank, int bodies) const {
    if (bodies == 1) return "worker";
    const auto& cuts = program == "evaluate" ? plan_.evaluateCuts : plan_.batchCuts;
    const auto c = static_cast<std::size_t>(cluster_.mesh.coordinate(rank, kDataAxis));
    return fmt::format("worker.{}", cuts[c + 1] - cuts[c]);
  }

  const PlanRequest& request_;
  const cluster::Cluster& cluster_;
  const CostModel& cost_;
  int ranks_, modelRanks_;  // along the axes data and model
  int stages_, servers_;    // of the mesh
  std::vector<std::int64_t> stateBytes_;  // by stage
  PipelineSchedule pipeline_;
  std::optional<passes::Compression> compression_;  // where ranks add up gradients
  passes::Sources splits_;
  std::map<std::string, ir::Parameter::PartOf, std::less<>> parts_;  // of tables on servers
  plan::Plan plan_;
};

}  // namespace

Result<plan::Plan> makePlan(const PlanRequest& request, const cluster::Cluster& cluster,
                            const CostModel& cost) {
  LOCKSTEP_ASSIGN(plan::Plan plan, Maker(request, cluster, cost).run());
  LOCKSTEP_TRY(chooseAllReduces(plan, cluster, request.allReduce));
  predict(plan, cluster, cost);
  if (const Status status = plan::verify(plan); !status.ok()) {
    return makeError(Code::kInternal, "the plan of {} does not hold: {}", plan.name,
                     status.error().text());
  }
  return plan;
}

}  // namespace lockstep::planner
