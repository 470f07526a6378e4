#include "engine/planner/planner.h"

#include <algorithm>
#include <map>
#include <utility>

#include "engine/cluster/cuts.h"
#include "engine/passes/distribute.h"
#include "engine/passes/pass_manager.h"
#include "engine/passes/programs.h"
#include "engine/passes/recompute.h"
#include "engine/passes/serve_tables.h"
#include "engine/passes/stages.h"
#include "engine/planner/layer_placement.h"
#include "engine/planner/pipeline.h"
#include "engine/planner/plan_context.h"
#include "engine/planner/pricing.h"
#include "engine/planner/program_builder.h"
#include "engine/planner/request_checks.h"
#include "engine/planner/state_layout.h"

namespace lockstep::planner {
namespace {

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

std::string precisionName(DType compute, DType matmulDtype, bool tf32) {
  if (tf32) return "tf32";
  if (matmulDtype == DType::kBf16) return "bf16";
  if (matmulDtype == DType::kF16) return "fp16";
  return compute == DType::kF64 ? "fp64" : "fp32";
}

// Checks a request and returns what its plan is built from.
Result<PlanContext> checkedContext(const PlanRequest& request, const cluster::Cluster& cluster,
                                   const CostModel& cost) {
  LOCKSTEP_ASSIGN(const Strategy strategy, strategyOf(request, cluster));
  PlanContext context{request, cluster, cost, strategy, std::nullopt};
  const int ranks = context.ranks();
  const bool pipeline = context.isPipeline();
  LOCKSTEP_TRY(checkOptions(request, strategy, cluster.mesh));
  LOCKSTEP_TRY(checkServers(strategy, cluster.mesh));
  LOCKSTEP_TRY(checkLocal(strategy, cluster.mesh));
  LOCKSTEP_TRY(checkTensor(request, strategy, cluster.mesh));
  LOCKSTEP_TRY(checkStages(request, strategy, cluster.mesh, pipeline ? context.stages() : 1));
  LOCKSTEP_TRY(checkBatches(request, ranks, pipeline));
  LOCKSTEP_TRY(checkShares(request, ranks, pipeline));
  LOCKSTEP_TRY(checkOverlap(request));
  LOCKSTEP_TRY(checkModels(request.step, request.evaluate));
  LOCKSTEP_TRY(checkStaleness(request));
  LOCKSTEP_ASSIGN(context.compression, compressionOf(request, strategy, ranks));
  LOCKSTEP_TRY(checkOrder(request, ranks));
  LOCKSTEP_TRY(checkLossScale(request, strategy, pipeline, context.compression.has_value()));
  return context;
}

class PlanBuilder {
 public:
  PlanBuilder(const PlanContext& context, passes::PassTrace* trace)
      : context_(context),
        request_(context.request),
        model_(context.request.step),
        evaluation_(context.request.evaluate),
        passes_(trace),
        state_(context, plan_),
        programs_(context, passes_, pipeline_, state_, plan_) {}

  // From model to plan: what follows is the order of all passes. Model passes, then a graph for
  // each program; those of one program's graph and of one rank's are ProgramBuilder's.
  Result<plan::Plan> build() {
    LOCKSTEP_TRY(describe());
    LOCKSTEP_TRY(schedule());
    LOCKSTEP_TRY(chooseTables());
    layOut();
    LOCKSTEP_ASSIGN(model_, passes_.run("model", modelPasses(plan_.batchCuts), model_));
    LOCKSTEP_ASSIGN(evaluation_,
                    passes_.run("evaluate", modelPasses(plan_.evaluateCuts, false), evaluation_));
    findShardedTables();

    LOCKSTEP_ASSIGN(ir::Graph train,
                    passes_.apply("train", "autodiff", model_, passes::trainGraph));
    LOCKSTEP_ASSIGN(train, passes_.run("train", precisionPasses(), std::move(train)));
    LOCKSTEP_ASSIGN(train, passes_.run("train", recomputePasses(), std::move(train)));
    LOCKSTEP_ASSIGN(train, passes_.run("train", tensorPasses(), std::move(train)));
    LOCKSTEP_ASSIGN(const passes::StepProgram step,
                    passes_.apply("train", "group", train, [&](const ir::Graph& graph) {
                      return passes::stepProgram(graph, request_.training, layout_);
                    }));

    LOCKSTEP_ASSIGN(ir::Graph evaluate,
                    passes_.apply("evaluate", "results", evaluation_, passes::evaluateGraph));
    LOCKSTEP_ASSIGN(evaluate, passes_.run("evaluate", precisionPasses(), std::move(evaluate)));
    LOCKSTEP_ASSIGN(evaluate, passes_.run("evaluate", tensorPasses(), std::move(evaluate)));
    LOCKSTEP_ASSIGN(
        evaluate, passes_.apply("evaluate", "group", evaluate, [&](const ir::Graph& graph) {
          return passes::evaluateProgram(graph, step, context_.isPipeline() ? ir::kEveryStage : 0);
        }));

    LOCKSTEP_ASSIGN(
        ir::Graph init,
        passes_.apply("init", "initial-values", model_, [&](const ir::ModelGraph& model) {
          return passes::initGraph(model, request_.training.seed);
        }));
    LOCKSTEP_ASSIGN(init, passes_.run("init", tensorPasses(), std::move(init)));
    LOCKSTEP_ASSIGN(init, passes_.apply("init", "group", init, [&](const ir::Graph& graph) {
      return passes::initProgram(graph, step, request_.training);
    }));

    LOCKSTEP_TRY(state_.add(step, splits_, parts_));
    return addPrograms(step, init, evaluate);
  }

 private:
  // The passes, in order. A pass that changes nothing for this request is disabled.
  std::vector<passes::ModelPass> modelPasses(const std::vector<std::int64_t>& cuts,
                                             bool training = true) const {
    const int ranks = context_.ranks();
    // A server is with one worker at a time where workers do not wait for each other.
    const int with = training && context_.isAsynchronous() ? 1 : ranks;
    const auto shardTables = [this, ranks, with, &cuts](const ir::ModelGraph& model) {
      return passes::serveTables(model, tables_, context_.servers(), ranks, with,
                                 cluster::largestPart(cuts));
    };
    const auto splitLoss = [this](const ir::ModelGraph& model) {
      return passes::divideLoss(model, context_.modelRanks());
    };
    return {
        {"shard-tables", shardTables, !tables_.empty()},
        {"split-loss", splitLoss, context_.modelRanks() > 1},
    };
  }

  std::vector<passes::Pass> precisionPasses() const {
    const auto autocast = [this](const ir::Graph& graph) {
      return passes::autocast(graph, request_.matmulDtype, context_.storesNarrow());
    };
    return {
        {"allow-tf32", passes::allowTf32, request_.tf32},
        {"autocast", autocast, !request_.tf32 && request_.matmulDtype != DType::kF32},
    };
  }

  std::vector<passes::Pass> recomputePasses() const {
    const auto recompute = [this](const ir::Graph& graph) -> Result<ir::Graph> {
      LOCKSTEP_ASSIGN(const passes::Recompute what, passes::recomputeFromName(request_.recompute));
      return passes::recompute(graph, what);
    };
    return {{"recompute", recompute, request_.recompute != "none"}};
  }

  // Tensor parallelism. Parts are equal, so that all ranks along the axis have one graph; what
  // differs is an expression of the coordinate.
  std::vector<passes::Pass> tensorPasses() const {
    const bool divided = context_.modelRanks() > 1;
    const auto place = [this](const ir::Graph& graph) {
      return passes::place(graph, kModelAxis, splits_);
    };
    const auto localize = [this](const ir::Graph& graph) {
      return passes::localise(graph, context_.mesh(), 0);
    };
    return {
        {"place-model", place, divided},
        {"remove-dead-model", passes::removeDead, divided},
        {"localize-model", localize, divided},
    };
  }

  Status describe() {
    plan_.name = request_.step.graph.name();
    plan_.strategy = request_.strategy;
    plan_.mesh = context_.mesh();
    plan_.precision = precisionName(request_.step.compute, request_.matmulDtype, request_.tf32);
    plan_.globalBatch = request_.step.batch * request_.microBatches;
    plan_.microBatches = request_.microBatches;
    plan_.staleness = request_.staleness;
    const passes::UpdateKind update = updateKind();
    if (update == passes::UpdateKind::kSynchronous || update == passes::UpdateKind::kAccumulating)
      plan_.watchEvery = request_.training.watch.every;
    plan_.batchCuts = cuts(request_.step.batch);
    plan_.evaluateCuts = cuts(request_.evaluate.batch);
    return checkStatistics(request_, context_.strategy, plan_.batchCuts);
  }

  std::vector<std::int64_t> cuts(std::int64_t samples) const {
    return request_.shares.empty() ? cluster::evenCuts(samples, context_.ranks())
                                   : cluster::cutsBy(samples, request_.shares);
  }

  // Stages of layers, the programs of a training step, and what each stage runs of it.
  Status schedule() {
    const auto stages = static_cast<std::size_t>(context_.stages());
    if (context_.isPipeline()) {
      LOCKSTEP_ASSIGN(const std::vector<int> stageOfLayer,
                      stagesOfLayers(context_, plan_.precision));
      passes::assignStages(model_, stageOfLayer);
      passes::assignStages(evaluation_, stageOfLayer);
      pipeline_ = pipelineSchedule(request_.schedule, context_.stages(), request_.microBatches);
      plan_.schedule = pipeline_.entries;
      training_ = {"forward", "backward"};
      if (pipeline_.splitWeightGrad) training_.emplace_back("weights");
      return {};
    }
    if (context_.isAsynchronous()) {
      training_.insert(training_.end(), plan::kServerSession.begin(), plan::kServerSession.end());
      plan_.schedule.push_back({{"step", 0, 0}});
      plan_.schedule.resize(stages, serverSessions());
      return {};
    }
    std::vector<plan::ScheduleEntry> entries;
    for (int micro = 0; micro < request_.microBatches; ++micro)
      entries.push_back({"step", micro, 0});
    if (updateKind() == passes::UpdateKind::kLocal) entries.push_back({"average", 0, 0});
    if (updateKind() == passes::UpdateKind::kAccumulating) entries.push_back({"update", 0, 0});
    plan_.schedule.assign(stages, entries);
    return {};
  }

  // The schedule of an asynchronous server: one legal order of messages that come in any.
  std::vector<plan::ScheduleEntry> serverSessions() const {
    std::vector<plan::ScheduleEntry> entries;
    for (const auto& [first, last] : {std::pair{0, 2}, std::pair{3, 4}}) {
      for (int worker = 0; worker < context_.ranks(); ++worker) {
        for (int part = first; part <= last; ++part) {
          entries.push_back(
              {std::string(plan::kServerSession[static_cast<std::size_t>(part)]), 0, worker});
        }
      }
    }
    return entries;
  }

  passes::UpdateKind updateKind() const {
    if (context_.strategy.local) return passes::UpdateKind::kLocal;
    if (context_.isAsynchronous()) return passes::UpdateKind::kAsynchronous;
    if (request_.microBatches > 1 || context_.isPipeline() || request_.inOrder)
      return passes::UpdateKind::kAccumulating;
    return passes::UpdateKind::kSynchronous;
  }

  // Tables that batches touch in few rows are sharded by rows over the servers. Clipping by norm
  // needs a worker's whole gradient, which an asynchronous worker has of dense parameters only.
  Status chooseTables() {
    const bool clips = request_.training.optimizer.clipNorm > 0;
    if (context_.servers() > 0 && !(context_.isAsynchronous() && clips))
      tables_ = passes::tablesOf(model_, cluster::largestPart(plan_.batchCuts), context_.servers());
    return checkDense(request_, context_.strategy, !tables_.empty());
  }

  // Of the gradients of a rank, where stages are of equal size, without those of tables.
  std::int64_t gradientBytes() const {
    const int stages = context_.isPipeline() ? context_.stages() : 1;
    std::int64_t count = 0;
    for (const ir::Parameter& parameter : model_.parameters) {
      const bool isTable = std::ranges::find(tables_, parameter.name) != tables_.end();
      if (parameter.frozen || isTable) continue;
      const bool isDivided = parameter.isDivided(context_.modelRanks());
      count += elementCount(parameter.shape) / (isDivided ? context_.modelRanks() : 1);
    }
    return count * static_cast<std::int64_t>(sizeOf(model_.compute)) / stages;
  }

  // How the training step is laid out in groups.
  void layOut() {
    const int ranks = context_.ranks();
    const cluster::Link link = linkAlong(context_.mesh(), context_.cluster, cluster::kDataAxis);
    layout_.update = updateKind();
    layout_.bucketBytes =
        request_.bucketBytes > 0
            ? request_.bucketBytes
            : passes::chooseBucketBytes(link.latency, link.bytesPerSecond, gradientBytes());
    if (context_.strategy.splitOptimizer) layout_.parts = ranks;
    layout_.compressed = context_.compression.has_value();
    layout_.orderedSums = request_.inOrder;
    layout_.watch = request_.training.watch;
    layout_.servers = request_.dense == "servers" ? context_.servers() : 0;
    if (context_.modelRanks() > 1) {
      layout_.syncAxes.emplace_back(kModelAxis);
      layout_.dividedAlong = kModelAxis;
    }
    if (context_.isPipeline()) layout_.syncAxes.emplace_back(cluster::kStageAxis);
    if (context_.stages() > 1) layout_.everywhere = ir::kEveryStage;
    for (const ir::Parameter& parameter : model_.parameters)
      if (parameter.isDivided(context_.modelRanks())) layout_.divided.insert(parameter.name);
  }

  // Decisions of the model passes on tables, loss and split parameters.
  void findShardedTables() {
    for (const ir::Parameter& parameter : model_.parameters) {
      if (parameter.partOf.whole.empty()) continue;
      layout_.rowSharded.insert(parameter.name);
      parts_.emplace(parameter.name, parameter.partOf);
    }
    if (request_.training.lossScale) {
      const ir::Graph& graph = model_.graph;
      const int stage =
          layout_.servers > 0 ? 1 : graph.node(graph.value(model_.loss).producer).stage;
      layout_.scaling = {*request_.training.lossScale, lossTerms(), stage};
    }
    splits_ = tensorSplits(model_.parameters, context_.modelRanks());
    for (const ir::Node& node : model_.graph.nodes()) {
      if (node.op != ir::Op::kEmbedding) continue;
      const ir::Node& table = model_.graph.node(model_.graph.value(node.inputs[0]).producer);
      const auto split = splits_.find(ir::textAttr(table.attrs, "state"));
      if (split != splits_.end()) splits_[node.name + ".grad.table"] = split->second;
    }
  }

  // Samples, or their tokens, of an update.
  std::int64_t lossTerms() const {
    const ir::Graph& graph = request_.step.graph;
    const ir::Node& sum = graph.node(graph.value(request_.step.weight).producer);
    const std::int64_t terms = graph.value(sum.inputs.at(0)).type.count();
    return context_.strategy.local ? terms : terms * request_.microBatches;
  }

  Result<plan::Plan> addPrograms(const passes::StepProgram& step, const ir::Graph& init,
                                 const ir::Graph& evaluate) {
    LOCKSTEP_TRY(programs_.add({"init"}, init, state_.sources()));
    passes::Sources training = state_.sources();
    state_.splitInputs(request_.step.graph, plan_.batchCuts, training);
    // An accumulated gradient is reduced when it is used, unless it is kept in parts.
    if (layout_.update != passes::UpdateKind::kAccumulating || context_.strategy.splitGradients)
      state_.splitGradients(step, training);
    LOCKSTEP_TRY(programs_.addTraining(training_, step.graph, training, step.gradients));
    if (step.last) {
      passes::Sources last = state_.sources();
      state_.splitGradients(step, last);
      LOCKSTEP_TRY(programs_.addTraining({plan_.schedule[0].back().program}, *step.last, last,
                                         step.gradients));
    }
    passes::Sources evaluation = state_.sources();
    state_.splitInputs(request_.evaluate.graph, plan_.evaluateCuts, evaluation);
    LOCKSTEP_TRY(programs_.add({"evaluate"}, evaluate, evaluation));
    plan_.stateBytes = state_.peakBytes();
    return std::move(plan_);
  }

  const PlanContext& context_;
  const PlanRequest& request_;
  ir::ModelGraph model_, evaluation_;
  passes::PassManager passes_;
  plan::Plan plan_;
  PipelineSchedule pipeline_;
  StateLayout state_;
  ProgramBuilder programs_;
  std::vector<std::string> training_{"step"};  // the programs of a micro-batch
  std::vector<std::string> tables_;            // sharded by rows over the servers
  passes::StepLayout layout_;
  passes::Sources splits_;                                           // along axis "model"
  std::map<std::string, ir::Parameter::PartOf, std::less<>> parts_;  // of sharded tables
};

}  // namespace

Result<plan::Plan> makePlan(const PlanRequest& request, const cluster::Cluster& cluster,
                            const CostModel& cost, passes::PassTrace* trace) {
  LOCKSTEP_ASSIGN(const PlanContext context, checkedContext(request, cluster, cost));
  LOCKSTEP_ASSIGN(plan::Plan plan, PlanBuilder(context, trace).build());
  LOCKSTEP_TRY(chooseAllReduces(plan, cluster, request.allReduce));
  predict(plan, cluster, cost);
  if (const Status status = plan::verify(plan); !status.ok()) {
    return makeError(Code::kInternal, "the plan of {} does not hold: {}", plan.name,
                     status.error().text());
  }
  return plan;
}

}  // namespace lockstep::planner
