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

namespace lockstep::planner {

namespace {

Error refusal(Message what, Message why, std::vector<Remedy> remedies) {
  Error error = invalidArgument("{}", what);
  error.why = std::move(why);
  return withRemedies(std::move(error), std::move(remedies));
}

// One remedy of one setting.
std::vector<Remedy> set(std::string field, std::string value) {
  return {{{std::move(field), std::move(value)}}};
}
std::vector<Remedy> setNumber(std::string field, std::int64_t value) {
  return set(std::move(field), fmt::format("{}", value));
}

// Plain data parallelism, without the options that only the request's strategy has.
Remedy toMirrored(const PlanRequest& request, const Strategy& strategy) {
  Remedy out{{"strategy.kind", "multi-worker-mirrored"}};
  if (strategy.local) out.push_back({"strategy.local_steps", ""});
  if (strategy.servers) out.push_back({"strategy.servers", "0"});
  if (request.isAsynchronous()) out.push_back({"strategy.staleness", "0"});
  if (request.dense != "servers") out.push_back({"strategy.dense", "servers"});
  return out;
}

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

namespace {

// Ranks that all-reduce gather each other's payloads instead: ranks − 1 of them, where the
// all-reduce moves 2·(ranks − 1)/ranks of the gradients. Of what they reduce-scatter they exchange
// (ranks − 1)/ranks, coded or not.
Status checkSaves(const PlanRequest& request, const Strategy& strategy, int ranks,
                  const passes::Compression& how) {
  std::int64_t count = 0;
  for (const ir::Parameter& parameter : request.step.parameters)
    if (!parameter.frozen) count += elementCount(parameter.shape);
  if (count == 0) return {};
  const bool inParts = strategy.splitOptimizer;
  const std::int64_t payload = ir::payloadBytes(how.coding, count, how.kept(count)),
                     bytes = count * static_cast<std::int64_t>(sizeOf(request.step.compute)),
                     coded = inParts ? payload : ranks * payload,
                     plain = inParts ? bytes : 2 * bytes;
  if (coded <= plain) return {};
  const auto times = [&](std::int64_t moved) {  // the gradients
    return static_cast<double>(moved) * (ranks - 1) / ranks / static_cast<double>(bytes);
  };
  const double ratio = static_cast<double>(bytes) / static_cast<double>(payload);
  std::vector<Remedy> remedies = set("strategy.compression", "none");
  if (strategy.axis == kDataAxis && !inParts && ratio >= 1)
    remedies.push_back({{"strategy.kind", "zero-1"}});
  return refusal(
      message("gradients sent as {} would take more of the network than uncompressed ones: each of "
              "{} ranks would receive {:.3f} times the gradients a step, where uncompressed ones "
              "take {:.3f} times",
              request.compression, ranks, times(coded), times(plain)),
      inParts ? message("compression makes them {:.2f} times smaller", ratio)
              : message("a rank receives the gradients of every other, each {:.2f} times smaller: "
                        "that saves with less than {:.1f} ranks",
                        ratio, 2 * ratio),
      std::move(remedies));
}

}  // namespace

Result<std::optional<passes::Compression>> compressionOf(const PlanRequest& request,
                                                         const Strategy& strategy, int ranks) {
  if (request.compression == "none") return std::optional<passes::Compression>();
  const auto coding = ir::codingFromName(request.compression);
  if (!coding) {
    return refusal(message("unknown compression {}", request.compression),
                   "strategy.compression is one of none, fp16, bf16, int8, top-k",
                   set("strategy.compression", "none"));
  }
  if (!(request.topKRatio > 0 && request.topKRatio <= 1)) {
    return refusal(message("top-k cannot send {} of the gradients", request.topKRatio),
                   "strategy.top_k_ratio is more than 0 and at most 1",
                   set("strategy.top_k_ratio", "0.01"));
  }
  if (strategy.servers || strategy.local) {
    return refusal(
        message("strategy {} cannot send gradients as {}", strategy.name, request.compression),
        strategy.local ? "its ranks exchange parameters, not gradients"
                       : "its servers sum whole gradients as they arrive",
        {{{"strategy.compression", "none"}}, toMirrored(request, strategy)});
  }
  if (ranks == 1) return std::optional<passes::Compression>();
  const passes::Compression how{*coding, request.topKRatio};
  LOCKSTEP_TRY(checkSaves(request, strategy, ranks, how));
  return std::optional(how);
}

namespace {

// Ordered sums are for verification on few ranks: a rank gathers at most so many times what a plain
// all-reduce moves.
constexpr int kMostGathered = 64;

// With so many parts on R ranks a rank gathers (R − 1)·parts/R gradients a step; an all-reduce
// moves 2·(R − 1)/R of them.
Status checkParts(const PlanRequest& request, int ranks) {
  constexpr std::int64_t kMostParts = 2 * kMostGathered;
  const std::int64_t parts = std::int64_t{request.microBatches} * ranks,
                     batch = request.step.batch * request.microBatches;
  if (ranks == 1 || parts <= kMostParts) return {};
  std::int64_t fewer = kMostParts / ranks * ranks;
  while (fewer > 0 && batch % fewer != 0) fewer -= ranks;
  std::vector<Remedy> remedies;
  if (fewer > 0) remedies = setNumber("strategy.deterministic_parts", fewer);
  remedies.push_back({{"strategy.deterministic_parts", "0"}});
  return refusal(
      message("strategy.deterministic_parts is {}: each of {} ranks would receive {} times the "
              "gradients a step, {:.1f} times what a plain all-reduce moves; expected at most {} "
              "parts",
              parts, ranks, parts - request.microBatches, static_cast<double>(parts) / 2,
              kMostParts),
      "every rank receives the gradients of all parts and sums them in one order, which is for "
      "verification on few ranks",
      std::move(remedies));
}

}  // namespace

Status checkOrder(const PlanRequest& request, int ranks) {
  if (!request.inOrder) return {};
  if (request.compression != "none") {
    return refusal(
        message("gradients sent as {} cannot be summed in a fixed order", request.compression),
        "with strategy.deterministic_parts every rank sums all parts of the batch, one after "
        "another",
        {{{"strategy.deterministic_parts", "0"}}, {{"strategy.compression", "none"}}});
  }
  LOCKSTEP_TRY(checkParts(request, ranks));
  if (request.step.batch % ranks == 0) return {};
  const std::int64_t multiple = ranks * request.microBatches,
                     batch = request.step.batch * request.microBatches;
  return refusal(
      message("a micro-batch of {} cannot be divided evenly over {} ranks", request.step.batch,
              ranks),
      "with strategy.deterministic_parts gradients are summed in a fixed order of equal parts",
      setNumber("training.batch", (batch + multiple - 1) / multiple * multiple));
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
