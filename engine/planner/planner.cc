#include "engine/planner/planner.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "engine/base/hash.h"
#include "engine/cluster/cuts.h"
#include "engine/passes/compress.h"
#include "engine/passes/distribute.h"
#include "engine/passes/order_sums.h"
#include "engine/passes/programs.h"
#include "engine/passes/recompute.h"
#include "engine/passes/serve_tables.h"
#include "engine/passes/stages.h"
#include "engine/planner/in_flight.h"
#include "engine/planner/lower.h"
#include "engine/planner/pipeline.h"
#include "engine/planner/pricing.h"
#include "engine/planner/request_checks.h"

namespace lockstep::planner {
namespace {

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
                                  cluster::evenCuts(extent, ranks)};
    splits[parameter.name] = split;
    splits[fmt::format("{}{}", passes::kGradient, parameter.name)] = split;
  }
  return splits;
}

// Says what a group holds and where, so that the residuals of a checkpoint are taken for the same
// gradients alone.
std::string contentsOf(const passes::Group& group) {
  std::string all = fmt::format("{}", group.count);
  for (const passes::Group::Member& member : group.members)
    all += fmt::format(" {}@{}", member.name, member.element);
  return fmt::format("group.{:016x}", stableHash(all));
}

// Seconds of a layer's forward pass by the roofline.
std::vector<double> layerCosts(const ir::ModelGraph& model, const cluster::DeviceRates& rates) {
  std::vector<double> costs(model.layers.size(), 0);
  std::size_t layer = 0;
  for (std::size_t i = 0; i < model.graph.nodes().size(); ++i) {
    while (layer + 1 < costs.size() &&
           static_cast<ir::NodeId>(i) >= model.layers[layer + 1].first) {
      ++layer;
    }
    const ir::Node& node = model.graph.nodes()[i];
    if (node.inputs.empty() || ir::info(node.op).isView) continue;
    std::vector<ir::TensorType> inputs, outputs;
    for (const ir::ValueId input : node.inputs) inputs.push_back(model.graph.value(input).type);
    for (const ir::ValueId output : node.outputs) outputs.push_back(model.graph.value(output).type);
    const ir::OpCost work = ir::info(node.op).cost(node, inputs, outputs);
    costs[layer] += std::max(work.flops / rates.flopsPerSecond,
                             static_cast<double>(work.bytes) / rates.bytesPerSecond) +
                    rates.launchSeconds;
  }
  return costs;
}

std::string precisionName(DType compute, DType products, bool tf32) {
  if (tf32) return "tf32";
  if (products == DType::kBf16) return "bf16";
  if (products == DType::kF16) return "fp16";
  return compute == DType::kF64 ? "fp64" : "fp32";
}

// Seconds of computing that are worth a thread's waking and what its waking takes from the others.
constexpr double kWorthAThread = 1e-4;

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
    LOCKSTEP_TRY(checkOptions(request_, strategy, cluster_.mesh));
    LOCKSTEP_TRY(checkServers(strategy, cluster_.mesh));
    LOCKSTEP_TRY(checkLocal(strategy, cluster_.mesh));
    LOCKSTEP_TRY(checkTensor(request_, strategy, cluster_.mesh));
    LOCKSTEP_TRY(checkStages(request_, cluster_.mesh, isPipeline() ? stages_ : 1));
    // of the ranks that the mesh is to have
    LOCKSTEP_TRY(checkBatches(request_, ranks_, isPipeline()));
    LOCKSTEP_TRY(checkShares(request_, ranks_, isPipeline()));
    LOCKSTEP_TRY(checkOverlap(request_));
    LOCKSTEP_TRY(checkModels(request_.step, request_.evaluate));
    LOCKSTEP_TRY(checkStaleness(request_));
    LOCKSTEP_ASSIGN(compression_, compressionOf(request_, strategy, ranks_));
    LOCKSTEP_TRY(checkOrder(request_, ranks_));
    LOCKSTEP_TRY(checkLossScale(request_, strategy, isPipeline(), compression_.has_value()));
    const DType dtype = request_.step.compute;
    plan_.name = request_.step.graph.name();
    plan_.strategy = request_.strategy;
    plan_.mesh = cluster_.mesh;
    plan_.precision = precisionName(dtype, request_.products, request_.tf32);
    plan_.globalBatch = request_.step.batch * request_.microBatches;
    plan_.microBatches = request_.microBatches;
    plan_.staleness = request_.staleness;
    plan_.batchCuts = cuts(request_.step.batch);
    plan_.evaluateCuts = cuts(request_.evaluate.batch);
    LOCKSTEP_TRY(checkStatistics(request_, strategy, plan_.batchCuts));

    ir::ModelGraph model = request_.step, evaluation = request_.evaluate;
    std::vector<std::string> training{"step"};
    if (isPipeline()) {
      LOCKSTEP_ASSIGN(const std::vector<int> stageOfLayer,
                      request_.pins.empty()
                          ? passes::balanceStages(layerCosts(model, rates()), stages_)
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
      for (int micro = 0; micro < request_.microBatches; ++micro)
        plays.push_back({"step", micro, 0});
      if (strategy.local)
        plays.push_back({"average", 0, 0});
      else if (request_.microBatches > 1 || request_.inOrder)
        plays.push_back({"update", 0, 0});
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
    grouping.accumulate =
        !strategy.local && (request_.microBatches > 1 || isPipeline() || request_.inOrder);
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
    grouping.compressed = compression_.has_value();
    if (request_.training.lossScale)
      grouping.scaling = {*request_.training.lossScale, lossTerms(strategy),
                          grouping.servers > 0
                              ? 1
                              : model.graph.node(model.graph.value(model.loss).producer).stage};
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
    LOCKSTEP_ASSIGN(train, narrowed(std::move(train)));
    LOCKSTEP_ASSIGN(train, divided(checked("recompute", passes::recompute(train, what))));
    LOCKSTEP_ASSIGN(const passes::StepProgram step,
                    passes::stepProgram(train, request_.training, grouping));
    LOCKSTEP_ASSIGN(ir::Graph evaluate, passes::evaluateGraph(evaluation));
    LOCKSTEP_ASSIGN(evaluate, divided(narrowed(std::move(evaluate))));
    LOCKSTEP_ASSIGN(evaluate,
                    passes::evaluateProgram(evaluate, step, isPipeline() ? ir::kEveryStage : 0));
    LOCKSTEP_ASSIGN(ir::Graph init, divided(passes::initGraph(model, request_.training.seed)));
    LOCKSTEP_ASSIGN(init, passes::initProgram(init, step, request_.training));
    LOCKSTEP_TRY(addState(step, strategy, dtype));

    LOCKSTEP_TRY(addPrograms({"init"}, init, states()));
    // What is added up is a part of the sum already, or will be one when it is used.
    const bool inParts = !grouping.accumulate || strategy.splitGradients;
    LOCKSTEP_TRY(
        addTraining(training, step.graph, sources(request_.step.graph, plan_.batchCuts, inParts)));
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

  // Tables that batches touch in few rows are on the servers by rows; the length of gradients that
  // a worker sends by itself is known only where it has all of them.
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
    LOCKSTEP_ASSIGN(
        model, passes::serveTables(model, tables, servers_, ranks_, apart ? 1 : ranks_, share));
    LOCKSTEP_ASSIGN(evaluation, passes::serveTables(evaluation, tables, servers_, ranks_, ranks_,
                                                    largestShare(plan_.evaluateCuts)));
    for (const ir::Parameter& parameter : model.parameters) {
      if (parameter.partOf.whole.empty()) continue;
      grouping.served.insert(parameter.name);
      parts_.emplace(parameter.name, parameter.partOf);
    }
    return {};
  }

  Result<ir::Graph> narrowed(ir::Graph graph) const {
    if (request_.tf32) return checked("allow-tf32", passes::allowTf32(graph));
    if (request_.products == DType::kF32) return graph;
    return checked("narrow-products", passes::narrowProducts(graph, request_.products));
  }
  // Samples, or their tokens, of an update.
  std::int64_t lossTerms(const Strategy& strategy) const {
    const ir::Graph& graph = request_.step.graph;
    const ir::Node& sum = graph.node(graph.value(request_.step.weight).producer);
    const std::int64_t terms = graph.value(sum.inputs.at(0)).type.count();
    return strategy.local ? terms : terms * request_.microBatches;
  }
  static std::int64_t largestShare(const std::vector<std::int64_t>& cuts) {
    std::int64_t largest = 0;
    for (std::size_t i = 0; i + 1 < cuts.size(); ++i)
      largest = std::max(largest, cuts[i + 1] - cuts[i]);
    return largest;
  }
  std::vector<std::int64_t> cuts(std::int64_t samples) const {
    return request_.shares.empty() ? cluster::evenCuts(samples, ranks_)
                                   : cluster::cutsBy(samples, request_.shares);
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
        const bool split =
            ranks_ > 1 && (kind == "params" ? strategy.splitParameters : strategy.splitOptimizer);
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
      slot.stage = step.statistics[k].kind.stage;
      slot.type = {dtype, {step.statistics[k].count}};
      for (const passes::Group::Member& member : step.statistics[k].members) {
        slot.members.push_back(
            {.name = member.name, .shape = member.shape, .element = member.element});
      }
      addSlot(std::move(slot));
    }
    if (step.scaling) {
      const passes::Group group = passes::scalingGroup(*step.scaling);
      plan::StateSlot slot;
      slot.name = passes::kScaling;
      slot.stage = group.kind.stage;
      slot.type = {dtype, {group.count}};
      for (const passes::Group::Member& member : group.members)
        slot.members.push_back(
            {.name = member.name, .shape = member.shape, .element = member.element});
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
      plan::StateSlot::Member all{.name = contentsOf(group),
                                  .shape = {group.count * ranks_ * modelRanks_}};
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
      if (step.sums[k].whole) wholeSums_.insert(slot.name);
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
    sources["stop"] = sources[std::string(passes::kPartOfAgreed)] = {Kind::kPartialSum, 0, {}};
    for (const plan::StateSlot& slot : plan_.state) {
      const bool isSum = slot.name.starts_with("sums.");
      const bool ofServer = servers_ > 0 && slot.stage > 0;
      if (slot.name.starts_with(passes::kResidual) || wholeSums_.contains(slot.name) ||
          (slot.axis.empty() && (!isSum || ofServer))) {
        continue;
      }
      if (slot.axis.empty()) {
        if (!request_.inOrder)
          sources[slot.name] = sources[slot.name + ".zero"] = {Kind::kPartialSum, 0, {}};
        continue;
      }
      const ir::AxisPlacement parts{Kind::kSplit, 0,
                                    cluster::evenCuts(plan_.groupCount(slot), ranks_)};
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

  // Where gradients are coded, programs that send them whole too, for the first steps: the
  // optimizer's state and the model find their way while every gradient counts (Lin et al. 2018:
  // warm-up).
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
        std::none_of(plan_.programs.begin() + static_cast<std::ptrdiff_t>(first),
                     plan_.programs.end(), codes)) {
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
    const int bodies = 1 + *std::max_element(program.bodyOfRank.begin(), program.bodyOfRank.end());
    for (int body = 0; body < bodies; ++body) {
      const auto first = std::find(program.bodyOfRank.begin(), program.bodyOfRank.end(), body);
      const int rank = static_cast<int>(first - program.bodyOfRank.begin());
      LOCKSTEP_ASSIGN(const ir::Graph local, ofRank(graph, rank));
      LOCKSTEP_ASSIGN(
          plan::Body lowered,
          lower(local, plan_.state, role(program.name, rank, bodies), flightOf(program.name)));
      program.bodies.push_back(std::move(lowered));
    }
    plan_.programs.push_back(std::move(program));
    return {};
  }

  Result<ir::Graph> ofRank(const ir::Graph& placed, int rank) const {
    LOCKSTEP_ASSIGN(ir::Graph local,
                    checked("localise", passes::localise(placed, cluster_.mesh, rank)));
    if (request_.inOrder && ranks_ > 1)
      return checked("order-sums", passes::orderSums(local, kDataAxis, ranks_));
    if (!compression_) return local;
    return checked("compress", passes::compress(local, kDataAxis, ranks_, *compression_));
  }

  // On one host a collective is work for the cores that compute; between hosts it is waiting, and
  // GPUs have a queue for it.
  FlightRules& flightOf(const std::string& program) {
    const auto [known, isNew] = flights_.try_emplace(program);
    FlightRules& rules = known->second;
    if (!isNew) return rules;
    rules.may = [this](std::string_view axis) {
      return request_.overlap != "never" && axis != cluster_.mesh.messageAxis() &&
             cluster_.mesh.axisSize(axis) > 1 &&
             (request_.overlap == "always" || cluster_.link.kind == "nccl" ||
              crossesHosts(cluster_.mesh, cluster_, axis));
    };
    rules.flopsPerSecond = rates().flopsPerSecond;
    rules.bytesPerSecond = rates().bytesPerSecond;
    rules.leastSeconds = request_.overlap == "always" ? 0 : kWorthAThread;
    rules.wholeBytes = request_.gatherBytes;
    return rules;
  }

  // Of a server: one legal order of what comes as it comes.
  std::vector<plan::Play> conversations() const {
    std::vector<plan::Play> plays;
    for (const auto& [one, other] : {std::pair{0, 2}, std::pair{3, 4}}) {
      for (int worker = 0; worker < ranks_; ++worker) {
        for (int part = one; part <= other; ++part) {
          plays.push_back(
              {std::string(plan::kConversation[static_cast<std::size_t>(part)]), 0, worker});
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

  int copiesOf(int stage, const passes::Carried& one) const {
    return one.sent ? pipeline_.copies[static_cast<std::size_t>(stage)]
                    : copiesBetween(pipeline_, stage, one.from, one.to);
  }
  // Copies are in numbers that divide their stage's, which may be larger than micro-batches are on
  // the way: with that of up to twice as many all that is carried takes least memory. Of 3, what 2
  // micro-batches need would take 3; of 4 it takes 2.
  void chooseCopies(int stage, const std::vector<passes::Carried>& carried) {
    int& copies = pipeline_.copies[static_cast<std::size_t>(stage)];
    const int needed = copies;
    int best = needed;
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (copies = needed; copies < 2 * needed; ++copies) {
      std::int64_t bytes = 0;
      for (const passes::Carried& one : carried) bytes += one.type.bytes() * copiesOf(stage, one);
      if (bytes < least) least = bytes, best = copies;
    }
    copies = best;
    for (plan::Play& play : plan_.schedule[static_cast<std::size_t>(stage)])
      if (play.program != "update") play.copy = play.micro % copies;
  }

  // One body of each program, of the rank's stage.
  Status addBodies(std::vector<plan::Program>& programs, const ir::Graph& graph, int stage,
                   int rank) {
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
    }
    const bool ofPipeline = inParts && !conversation;
    LOCKSTEP_ASSIGN(
        const passes::Programs split,
        passes::splitPrograms(local, partOf, static_cast<int>(programs.size()),
                              fmt::format("{}.{}", inParts ? "step" : programs[0].name, stage)));
    if (ofPipeline && copiesChosen_.insert(stage).second) chooseCopies(stage, split.carried);
    if (ofPipeline) copies = pipeline_.copies[static_cast<std::size_t>(stage)];
    for (const passes::Carried& carried : split.carried) {
      plan::StateSlot slot;
      slot.name = carried.state;
      slot.type = carried.type;
      slot.stage = stage;
      slot.copies = ofPipeline ? copiesOf(stage, carried) : copies;
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
                      lower(played, plan_.state, stageRole(programs[part], stage, rank),
                            flightOf(programs[part].name)));
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
  cluster::DeviceRates rates() const { return workerRates(cluster_, plan_.precision, cost_); }
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
  int ranks_, modelRanks_;                // along the axes data and model
  int stages_, servers_;                  // of the mesh
  std::vector<std::int64_t> stateBytes_;  // by stage
  PipelineSchedule pipeline_;
  std::set<int> copiesChosen_;                      // stages whose number of copies is final
  std::optional<passes::Compression> compression_;  // where ranks add up gradients
  passes::Sources splits_;
  std::map<std::string, ir::Parameter::PartOf, std::less<>> parts_;  // of tables on servers
  std::set<std::string, std::less<>> wholeSums_;  // states of sums that every rank has of all ranks
  std::map<std::string, FlightRules> flights_;    // by program
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
