#include "engine/planner/request_checks.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "engine/cluster/cuts.h"
#include "engine/cluster/strategy_options.h"
#include "engine/ir/ops.h"
#include "engine/planner/pipeline.h"
#include "engine/planner/refusal.h"

namespace lockstep::planner {

namespace {

// bf16 has no loss scale.
Remedy toBf16() { return {{"training.precision", "bf16"}, {"training.loss_scale", ""}}; }

// The least batch, not smaller than the request's, that its ranks can divide: every rank has a
// sample of every micro-batch, in a pipeline all have as many, and batch norm's statistics groups
// are equal.
std::int64_t dividedBatch(const PlanRequest& request, int ranks, bool pipeline, bool evaluation) {
  constexpr std::int64_t kTries = 1 << 20;
  std::set<std::int64_t> groups;
  for (const ir::Node& node : request.step.graph.nodes())
    if (!evaluation && node.op == ir::Op::kBatchMoments)
      groups.insert(request.step.graph.value(node.outputs[0]).type.shape[0]);
  const auto works = [&](std::int64_t samples) {
    if (samples < ranks || (pipeline && samples % ranks != 0)) return false;
    if (!pipeline && !request.shares.empty() &&
        !cluster::leaveNoneEmpty(cluster::cutsBy(samples, request.shares)))
      return false;
    return std::all_of(groups.begin(), groups.end(),
                       [&](auto count) { return samples % count == 0; });
  };
  std::int64_t samples = (evaluation ? request.evaluate : request.step).batch;
  samples = std::max<std::int64_t>(samples, ranks);
  for (std::int64_t tries = 0; tries < kTries && !works(samples); ++tries) ++samples;
  return evaluation ? samples : samples * request.microBatches;
}

// "[{layer: dense1, stage: 0}, …]": as many layers on each stage, in their order.
std::string evenPins(const PlanRequest& request, int stages) {
  const auto& layers = request.step.layers;
  std::vector<std::string> pins;
  int before = -1;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const int stage = static_cast<int>(i * static_cast<std::size_t>(stages) / layers.size());
    if (stage == before) continue;
    pins.push_back(fmt::format("{{layer: {}, stage: {}}}", layers[i].name, stage));
    before = stage;
  }
  return fmt::format("[{}]", fmt::join(pins, ", "));
}

// With `dataRanks` sharing the batch, deterministic parts are a multiple of them, and divide it.
void keepParts(const PlanRequest& request, int ranks, int dataRanks, Remedy& remedy) {
  if (!request.inOrder) return;
  const std::int64_t parts = static_cast<std::int64_t>(request.microBatches) * ranks;
  const std::int64_t batch = request.step.batch * request.microBatches;
  if (parts % dataRanks == 0) return;
  const std::int64_t multiple = (parts + dataRanks - 1) / dataRanks * dataRanks;
  remedy.push_back({"strategy.deterministic_parts", fmt::format("{}", multiple)});
  remedy.push_back(
      {"training.batch", fmt::format("{}", (batch + multiple - 1) / multiple * multiple)});
}

}  // namespace

Status checkOptions(const PlanRequest& request, const Strategy& strategy,
                    const cluster::Mesh& mesh) {
  const int parts = request.inOrder ? request.microBatches * mesh.axisSize(kDataAxis) : 0;
  return cluster::checkOptions(strategy, {.servers = mesh.servers(),
                                          .tensor = mesh.axisSize(kModelAxis),
                                          .stages = mesh.axisSize(cluster::kStageAxis),
                                          .staleness = request.staleness,
                                          .microBatches = request.microBatches,
                                          .deterministicParts = parts,
                                          .shares = !request.shares.empty()});
}

Result<Strategy> strategyOf(const PlanRequest& request, const cluster::Cluster& cluster) {
  const Strategy* strategy = cluster::findStrategy(request.strategy);
  if (strategy == nullptr) {
    std::vector<std::string_view> known;
    for (const Strategy& other : cluster::strategies()) known.push_back(other.name);
    return refusal(message("unknown strategy {}", request.strategy),
                   message("strategy.kind is one of {}", fmt::join(known, ", ")),
                   set("strategy.kind", std::string(known.front())));
  }
  if (cluster.devices.size() != static_cast<std::size_t>(cluster.mesh.size())) {
    return makeError(Code::kInternal, "the mesh has {} ranks, the cluster {} devices",
                     cluster.mesh.size(), cluster.devices.size());
  }
  for (const cluster::Axis& axis : cluster.mesh.axes()) {
    if (axis.name != kDataAxis && axis.name != kModelAxis && axis.name != cluster::kStageAxis &&
        axis.size > 1) {
      return makeError(Code::kInternal, "strategy {} cannot use mesh axis {}", request.strategy,
                       axis.name);
    }
  }
  if (strategy->oneNode) {
    for (const cluster::Device& device : cluster.devices) {
      if (device.node == cluster.devices[0].node) continue;
      return refusal(
          message("strategy {} runs on one node", strategy->name),
          message("ranks are on {} and {}", cluster.devices[0].node, device.node),
          set("strategy.kind", strategy->servers ? "parameter-server" : "multi-worker-mirrored"));
    }
  }
  return *strategy;
}

Status checkBatches(const PlanRequest& request, int ranks, bool pipeline) {
  for (const bool evaluation : {false, true}) {
    const std::int64_t samples = (evaluation ? request.evaluate : request.step).batch;
    const char* const field = evaluation ? "training.evaluate_batch" : "training.batch";
    const int parts = evaluation ? 1 : request.microBatches;
    const Message where = parts > 1 ? message(" in each of {} micro-batches", parts) : Message();
    if (samples < ranks)
      return refusal(message("{} is {}, which leaves some of {} ranks without a sample{}", field,
                             samples * parts, ranks, where),
                     "every rank needs a sample",
                     setNumber(field, dividedBatch(request, ranks, pipeline, evaluation)));
    if (pipeline && samples % ranks != 0)
      return refusal(message("{} is {}, which {} ranks cannot share evenly{}", field,
                             samples * parts, ranks, where),
                     "the ranks of a pipeline's stage have equal shares",
                     setNumber(field, dividedBatch(request, ranks, pipeline, evaluation)));
  }
  return {};
}

Status checkOverlap(const PlanRequest& request) {
  if (request.overlap != "auto" && request.overlap != "always" && request.overlap != "never")
    return refusal(
        message("strategy.overlap is \"{}\"; expected auto, always or never", request.overlap), "",
        set("strategy.overlap", "auto"));
  if (request.gatherBytes < 0)
    return refusal(message("strategy.gather_bytes is {}; expected at least 0", request.gatherBytes),
                   "", set("strategy.gather_bytes", "0"));
  return {};
}

Status checkShares(const PlanRequest& request, int ranks, bool pipeline) {
  if (request.shares.empty()) return {};
  if (request.shares.size() != static_cast<std::size_t>(ranks)) {
    return refusal(message("strategy.shares has {} numbers, and the batch is divided over {} ranks",
                           request.shares.size(), ranks),
                   "each of these ranks needs a share", set("strategy.shares", ""));
  }
  if (pipeline) {
    return refusal("a pipeline's batch cannot be divided by strategy.shares",
                   "the ranks of a pipeline's stage have equal shares", set("strategy.shares", ""));
  }
  for (const bool evaluation : {false, true}) {
    const std::int64_t samples = (evaluation ? request.evaluate : request.step).batch;
    const std::vector<std::int64_t> cuts = cluster::cutsBy(samples, request.shares);
    for (std::size_t rank = 0; rank + 1 < cuts.size(); ++rank) {
      if (cuts[rank + 1] > cuts[rank]) continue;
      auto remedies = setNumber(evaluation ? "training.evaluate_batch" : "training.batch",
                                dividedBatch(request, ranks, pipeline, evaluation));
      remedies.push_back({{"strategy.shares", ""}});
      return refusal(message("strategy.shares[{}], {} of {}, leaves rank {} no sample of {}", rank,
                             request.shares[rank], fmt::join(request.shares, ", "), rank, samples),
                     evaluation ? message("every rank needs a sample of each evaluation step")
                     : request.microBatches > 1
                         ? message("every rank needs a sample of each micro-batch")
                         : message("every rank needs a sample of each step"),
                     std::move(remedies));
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
      return makeError(Code::kInternal, "the evaluation of {} replaces state",
                       evaluate.graph.name());
    }
  }
  return {};
}

namespace {

// Statistics of all samples of a micro-batch, in every batch norm.
Remedy oneGroup(const PlanRequest& request) {
  Remedy out;
  const auto& layers = request.step.layers;
  for (const ir::Node& node : request.step.graph.nodes()) {
    if (node.op != ir::Op::kBatchMoments) continue;
    const std::string_view layer = std::string_view(node.name).substr(0, node.name.rfind('.'));
    for (std::size_t i = 0; i < layers.size(); ++i)
      if (layers[i].name == layer)
        out.push_back({fmt::format("model.layers[{}].batch_norm.groups", i),
                       fmt::format("{}", request.microBatches)});
  }
  return out;
}

}  // namespace

Status checkStatistics(const PlanRequest& request, const Strategy& strategy,
                       const std::vector<std::int64_t>& cuts) {
  const ir::ModelGraph& model = request.step;
  for (const ir::Node& node : model.graph.nodes()) {
    if (node.op != ir::Op::kBatchMoments) continue;
    const std::string layer = node.name.substr(0, node.name.rfind('.'));
    if (strategy.local && request.microBatches > 1) {
      return refusal(
          message("batch norm {} cannot be trained by ranks that update independently", layer),
          "its statistics are those of all ranks' samples",
          {{{"strategy.local_steps", "1"}}, toMirrored(request, strategy)});
    }
    if (request.inOrder) {
      return refusal(
          message("batch norm {} cannot be trained with strategy.deterministic_parts", layer),
          "its statistics are summed rank by rank, so they depend on the number of ranks",
          set("strategy.deterministic_parts", "0"));
    }
    const std::int64_t groups = model.graph.value(node.outputs[0]).type.shape[0];
    const std::int64_t samples = model.batch / groups;
    for (std::size_t i = 0; groups > 1 && i < cuts.size(); ++i) {
      if (cuts[i] % samples == 0) continue;
      return refusal(
          message("batch norm {} has {} statistics groups of {} samples, and {} ranks cut the "
                  "batch of {} within one, at {}",
                  layer, groups, samples, cuts.size() - 1, model.batch, cuts[i]),
          "a group's statistics are computed where all of its samples are", {oneGroup(request)});
    }
  }
  return {};
}

Status checkTensor(const PlanRequest& request, const Strategy& strategy,
                   const cluster::Mesh& mesh) {
  const int ranks = mesh.axisSize(kModelAxis);
  if (ranks == 1) return {};
  const std::vector<ir::Parameter>& parameters = request.step.parameters;
  const auto sharesEvenly = [&](int n) {
    return std::all_of(parameters.begin(), parameters.end(), [&](const ir::Parameter& parameter) {
      return !parameter.isDivided(n) || parameter.splitParts % n == 0;
    });
  };
  for (const ir::Parameter& parameter : parameters) {
    if (!parameter.isDivided(ranks) || parameter.splitParts % ranks == 0) continue;
    int fewer = ranks;
    do fewer = cluster::divisorUpTo(ranks * mesh.axisSize(kDataAxis), fewer - 1);
    while (!sharesEvenly(fewer));
    Remedy shared{{"strategy.tensor", fmt::format("{}", fewer)}};
    keepParts(request, mesh.axisSize(kDataAxis), ranks * mesh.axisSize(kDataAxis) / fewer, shared);
    return refusal(
        message("{} has {} parts (heads or features), which strategy.tensor ranks, {}, cannot "
                "share evenly",
                parameter.name, parameter.splitParts, ranks),
        "every rank that shares layers computes an equal part of each", {std::move(shared)});
  }
  if (std::any_of(parameters.begin(), parameters.end(),
                  [&](const ir::Parameter& parameter) { return parameter.isDivided(ranks); }))
    return {};
  Remedy whole{{"strategy.tensor", "1"}};
  if (strategy.axis == kModelAxis) whole.push_back({"strategy.kind", "multi-worker-mirrored"});
  keepParts(request, mesh.axisSize(kDataAxis), ranks * mesh.axisSize(kDataAxis), whole);
  return refusal("this model has no layers that tensor parallelism divides",
                 "it divides transformer blocks and pairs of dense layers", {std::move(whole)});
}

Status checkServers(const Strategy& strategy, const cluster::Mesh& mesh) {
  if (strategy.servers && mesh.servers() == 0)
    return refusal(message("strategy {} needs a server", strategy.name), "",
                   set("strategy.servers", "1"));
  if (strategy.oneServer && mesh.servers() > 1) {
    return refusal(message("strategy {} has one server, not {}", strategy.name, mesh.servers()), "",
                   {{{"strategy.servers", "1"}}, {{"strategy.kind", "parameter-server"}}});
  }
  return {};
}

Status checkLocal(const Strategy& strategy, const cluster::Mesh& mesh) {
  if (!strategy.local || mesh.stages() == 1) return {};
  return refusal(
      message("strategy {} has no stages, and strategy.stages is {}", strategy.name, mesh.stages()),
      "each rank updates all layers independently", set("strategy.stages", "1"));
}

Status checkStaleness(const PlanRequest& request) {
  if (!request.isAsynchronous()) return {};
  for (const ir::Node& node : request.step.graph.nodes()) {
    if (node.op != ir::Op::kBatchMoments) continue;
    return refusal(message("batch norm {} cannot be trained by asynchronous workers",
                           node.name.substr(0, node.name.rfind('.'))),
                   "its statistics are those of all workers' samples",
                   set("strategy.staleness", "0"));
  }
  return {};
}

Status checkDense(const PlanRequest& request, const Strategy& strategy, bool tables) {
  if (request.dense == "servers") return {};
  const Remedy onServers{{"strategy.dense", "servers"}};
  if (request.dense != "all-reduce") {
    return refusal(message("strategy.dense is {}; expected servers or all-reduce", request.dense),
                   "", {onServers});
  }
  if (!strategy.servers) {
    return refusal(message("strategy {} has no servers for tables", request.strategy), "",
                   {onServers});
  }
  if (request.isAsynchronous()) {
    return refusal("workers that all-reduce the dense part are synchronous",
                   "an all-reduce waits for all of them",
                   {{{"strategy.staleness", "0"}}, onServers});
  }
  if (request.training.optimizer.clipNorm > 0) {
    return refusal("gradients that are divided between servers and workers cannot be clipped",
                   "no rank knows the norm of all of them",
                   {{{"training.optimizer.clip_norm", "0"}}, onServers});
  }
  if (tables) return {};
  return refusal(
      "this model has no table for servers to hold",
      "servers hold tables that only embeddings read, with fewer ids in a batch than rows",
      {onServers});
}

Status checkLossScale(const PlanRequest& request, const Strategy& strategy, bool pipeline,
                      bool compressed) {
  const std::optional<passes::LossScale>& scale = request.training.lossScale;
  if (!scale) return {};
  if (request.isAsynchronous())
    return refusal("asynchronous workers cannot share a loss scale",
                   "whether gradients overflow fp16 is known only when all of them have arrived",
                   {{{"strategy.staleness", "0"}}, toBf16()});
  if (request.dense == "all-reduce")
    return refusal(
        "servers and workers that each hold part of the gradients cannot share a loss scale",
        "no rank knows whether all of them are finite",
        {{{"strategy.dense", "servers"}}, toBf16()});
  if (compressed && strategy.splitGradients && (request.microBatches > 1 || pipeline))
    return refusal(
        message("strategy {} cannot compress gradients of micro-batches that may overflow fp16",
                request.strategy),
        "the residual is kept before it is known whether the step is skipped",
        {{{"strategy.compression", "none"}}, toBf16()});
  return {};
}

Status checkStages(const PlanRequest& request, const Strategy& strategy, const cluster::Mesh& mesh,
                   int stages) {
  if (stages == 1) {
    for (const auto& [layer, stage] : request.pins)
      if (stage != 0)
        return refusal(
            message("layer {} is pinned to stage {}, and there is one stage", layer, stage),
            "strategy.stages says how many there are", set("strategy.pins", ""));
    return {};
  }
  const int layers = static_cast<int>(request.step.layers.size());
  if (stages > layers) {
    return refusal(message("a model of {} layers cannot have {} stages", layers, stages),
                   "every stage needs a layer",
                   setNumber("strategy.stages",
                             cluster::divisorUpTo(stages * mesh.axisSize(kDataAxis), layers)));
  }
  if (strategy.pinned && request.pins.empty()) {
    return refusal(
        "strategy placement needs pinned layers", "strategy.pins says which stage has which",
        {{{"strategy.kind", "pipeline"}}, {{"strategy.pins", evenPins(request, stages)}}});
  }
  const auto schedules = pipelineSchedules();
  if (std::find(schedules.begin(), schedules.end(), request.schedule) == schedules.end()) {
    return refusal(message("unknown schedule {}", request.schedule),
                   message("strategy.schedule is one of {}", fmt::join(schedules, ", ")),
                   set("strategy.schedule", std::string(schedules[0])));
  }
  if (request.schedule == "zb-h1" && request.recompute != "none") {
    return refusal(
        "schedule zb-h1 gains nothing from recomputed activations",
        "it delays the gradients of weights, for which recomputed activations must wait as well",
        {{{"strategy.recompute", "none"}}, {{"strategy.schedule", "1f1b"}}});
  }
  return {};
}

Result<std::vector<int>> pinnedStages(const PlanRequest& request, int stages) {
  const Remedy even{{"strategy.pins", evenPins(request, stages)}};
  std::map<std::string_view, int> pins;
  for (const auto& [layer, stage] : request.pins) {
    const auto known = std::find_if(request.step.layers.begin(), request.step.layers.end(),
                                    [&](const auto& one) { return one.name == layer; });
    if (known == request.step.layers.end()) {
      std::vector<std::string_view> names;
      for (const auto& one : request.step.layers) names.push_back(one.name);
      return refusal(message("strategy.pins names layer {}, which the model does not have", layer),
                     message("its layers are {}", fmt::join(names, ", ")), {even});
    }
    if (stage < 0 || stage >= stages) {
      return refusal(message("strategy.pins has layer {} on stage {}, and there are {} stages",
                             layer, stage, stages),
                     message("stages are numbered from 0 to {}", stages - 1), {even});
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
    return refusal(message("strategy.pins has no layer on stage {} of {}", stage, stages),
                   "every stage needs a layer", {even});
  }
  if (request.microBatches > 1 && !std::is_sorted(stageOfLayer.begin(), stageOfLayer.end())) {
    return refusal("layers pinned back and forth cannot be trained in micro-batches",
                   "a stage passes micro-batches on to later ones",
                   {{{"strategy.micro_batches", "1"}}, even});
  }
  return stageOfLayer;
}

}  // namespace lockstep::planner
