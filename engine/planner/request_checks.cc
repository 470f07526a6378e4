#include "engine/planner/request_checks.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "engine/ir/ops.h"
#include "engine/passes/distribute.h"
#include "engine/planner/pipeline.h"

namespace lockstep::planner {

namespace {

Error numberToChange(std::string what, std::string why, std::string next) {
  Error error = invalidArgument("{}", what);
  error.why = std::move(why);
  error.next = std::move(next);
  return error;
}

}  // namespace

Result<Strategy> strategyOf(const PlanRequest& request, const cluster::Cluster& cluster) {
  const Strategy* strategy = cluster::findStrategy(request.strategy);
  if (strategy == nullptr) {
    std::vector<std::string_view> known;
    for (const Strategy& other : cluster::strategies()) known.push_back(other.name);
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

Status checkOverlap(const PlanRequest& request) {
  if (request.overlap != "auto" && request.overlap != "always" && request.overlap != "never")
    return invalidArgument("strategy.overlap is \"{}\"; expected auto, always or never", request.overlap);
  if (request.gatherBytes < 0) return invalidArgument("strategy.gather_bytes is {}, and cannot be below 0", request.gatherBytes);
  return {};
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

Status checkStatistics(const PlanRequest& request, const Strategy& strategy,
                       const std::vector<std::int64_t>& cuts) {
  const ir::ModelGraph& model = request.step;
  for (const ir::Node& node : model.graph.nodes()) {
    if (node.op != ir::Op::kBatchMoments) continue;
    const std::string layer = node.name.substr(0, node.name.rfind('.'));
    if (strategy.local && request.microBatches > 1) {
      return numberToChange(
          fmt::format("batch norm {} cannot be trained by ranks that update by themselves", layer),
          "its statistics are those of all ranks' samples",
          "choose a strategy that takes each step together, or use layer_norm instead of batch norm");
    }
    if (request.inOrder) {
      return numberToChange(
          fmt::format("batch norm {} cannot be trained with strategy.deterministic_parts", layer),
          "its statistics are added up rank by rank, and so depend on the number of ranks",
          "set strategy.deterministic_parts to 0, or use layer_norm instead of batch norm");
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

Status checkLocal(const Strategy& strategy, const cluster::Mesh& mesh) {
  if (!strategy.local || mesh.stages() == 1) return {};
  return numberToChange(
      fmt::format("strategy {} cannot use mesh axis {}", strategy.name, cluster::kStageAxis),
      "each rank updates all layers by itself", "set strategy.stages to 1");
}

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

Status checkLossScale(const PlanRequest& request, const Strategy& strategy, bool pipeline, bool compressed) {
  const std::optional<passes::LossScale>& scale = request.training.lossScale;
  if (!scale) return {};
  if (request.staleness != 0)
    return numberToChange("workers that do not wait for each other have no loss scale in common",
                          "whether a step's gradients are too large for fp16 is known when all of them are there",
                          "set strategy.staleness to 0, or training.precision to bf16, which needs no loss scale");
  if (request.dense == "all-reduce")
    return numberToChange("servers and workers that have a part of the gradients each have no loss scale in common",
                          "nobody knows whether all of them are finite",
                          "set strategy.dense to servers, or training.precision to bf16, which needs no loss scale");
  if (compressed && strategy.splitGradients && (request.microBatches > 1 || pipeline))
    return numberToChange(
        fmt::format("strategy {} cannot code gradients of micro-batches that may be too large for fp16",
                    request.strategy),
        "what coding leaves out is kept before it is known whether the step updates",
        "set strategy.compression to none, strategy.micro_batches to 1, or training.precision to bf16, which needs no "
        "loss scale");
  return {};
}

Status checkStages(const PlanRequest& request, int stages, int ranks) {
  if (stages == 1) {
    for (const auto& [layer, stage] : request.pins)
      if (stage != 0)
        return numberToChange(fmt::format("layer {} is pinned to stage {}, and there is one stage", layer, stage), "",
                              "set strategy.stages to the number of stages, or leave strategy.pins out");
    return {};
  }
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

}  // namespace lockstep::planner
