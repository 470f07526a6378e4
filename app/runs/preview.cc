#include "app/runs/preview.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <set>

#include "app/specs/spec_text.h"
#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/cluster/assumed.h"
#include "engine/cluster/strategies.h"
#include "engine/models/model.h"
#include "engine/specs/specs.h"
#include "lockstep/spec/v1/spec.pb.h"

namespace lockstep::app {
namespace {

using nlohmann::json;

passes::TrainOptions trainOptions(const spec::v1::TrainingSpec& training) {
  passes::TrainOptions out;
  const auto& optimizer = training.optimizer();
  out.optimizer.kind = optimizer.kind();
  out.optimizer.momentum = optimizer.momentum();
  out.optimizer.weightDecay = optimizer.weight_decay();
  out.optimizer.beta1 = optimizer.beta1();
  out.optimizer.beta2 = optimizer.beta2();
  out.optimizer.epsilon = optimizer.epsilon();
  out.optimizer.decayMatricesOnly = optimizer.decay_matrices_only();
  out.optimizer.clipNorm = optimizer.clip_norm();
  if (training.has_loss_scale()) {
    const auto& scale = training.loss_scale();
    out.lossScale = {scale.initial(), scale.growth_interval(), scale.fixed()};
  }
  out.seed = training.seed();
  return out;
}

std::string mebibytes(std::int64_t bytes) {
  return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20));
}
std::string kibibytes(std::int64_t bytes) {
  return fmt::format("{:.1f} KiB", static_cast<double>(bytes) / (1 << 10));
}
std::string milliseconds(double seconds) { return fmt::format("{:.3f} ms", seconds * 1e3); }

std::int64_t largestShare(const std::vector<std::int64_t>& cuts) {
  std::int64_t largest = 0;
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i)
    largest = std::max(largest, cuts[i + 1] - cuts[i]);
  return largest;
}

Status addEvaluator(Preview& preview, const spec::v1::NodeSpec& node, const LaunchRequest& request,
                    const planner::PlanRequest& plan) {
  if (request.spec->training().checkpoint().disabled()) {
    Error error =
        invalidArgument("node {} is to evaluate checkpoints, and the run makes none", node.name());
    error.why = "training.checkpoint.disabled";
    return withRemedies(std::move(error), {{{"training.checkpoint.disabled", "false"}}});
  }
  const specs::RankDevice device = specs::rankDevices(node, request.spec->training()).front();
  LOCKSTEP_ASSIGN(const plan::Plan made,
                  planner::makeEvaluationPlan(
                      plan, {node.name(), node.name(), device.kind, device.number, device.threads},
                      preview.cost));
  preview.evaluator = {node.name(), planner::memory(made, 0, device.kind == "cuda").total(),
                       plan::text(made)};
  preview.remarks.push_back(
      fmt::format("node {} evaluates after each epoch, and the ranks do not: it needs {} of memory",
                  node.name(), mebibytes(preview.evaluator->totalBytes)));
  return {};
}

std::string sizeText(std::int64_t bytes) {
  const auto amount = static_cast<double>(bytes);
  if (amount >= 1e12) return fmt::format("{:.1f} TB", amount / 1e12);
  if (amount >= 1e9) return fmt::format("{:.1f} GB", amount / 1e9);
  return fmt::format("{:.1f} MB", amount / 1e6);
}

// A device or a host and what its ranks need of its memory, bytes.
struct Room {
  std::string where;
  std::int64_t needed = 0, available = 0;
  int ranks = 0;
  bool assumed = false;
};

// All of which something is known, or of GPUs assumed.
std::vector<Room> roomsOf(const Preview& preview, const std::vector<HostFacts>& hosts) {
  std::map<std::pair<std::string, std::string>, Room> rooms;  // by host or node and device
  const auto factsOf = [&](const std::string& node) -> const HostFacts* {
    const auto found = std::find_if(hosts.begin(), hosts.end(),
                                    [&](const auto& facts) { return facts.node == node; });
    return found == hosts.end() ? nullptr : &*found;
  };
  const auto onHost = [&](const std::string& node, std::int64_t bytes) {
    const HostFacts* facts = factsOf(node);
    if (facts == nullptr || facts->memoryAvailable <= 0) return;
    Room& room = rooms[{facts->host, ""}];
    if (room.ranks == 0)
      room = {fmt::format("the host of node {}", node), 0, facts->memoryAvailable};
    room.available = std::min(room.available, facts->memoryAvailable);
    room.needed += bytes;
    ++room.ranks;
  };
  for (const RankPreview& rank : preview.ranks) {
    if (rank.inHostMemory()) {
      onHost(rank.node, rank.totalBytes());
      continue;
    }
    const HostFacts* facts = factsOf(rank.node);
    const auto number = static_cast<std::size_t>(
        preview.cluster.devices[static_cast<std::size_t>(rank.rank)].index);
    Room& room = rooms[{rank.node, rank.device}];
    room.where = fmt::format("GPU {} of node {}", number, rank.node);
    room.assumed =
        facts == nullptr || number >= facts->gpuMemory.size() || facts->gpuMemory[number] <= 0;
    room.available = room.assumed
                         ? cluster::assumedRates("cuda", preview.plan.precision).memoryBytes
                         : facts->gpuMemory[number];
    room.needed += rank.totalBytes();
    ++room.ranks;
  }
  if (preview.evaluator) onHost(preview.evaluator->node, preview.evaluator->totalBytes);
  std::vector<Room> out;
  for (auto& [key, room] : rooms) out.push_back(std::move(room));
  return out;
}

// The one that lacks the most; null where all fit.
const Room* fullest(const std::vector<Room>& rooms) {
  const auto lack = [](const Room& room) { return room.needed - room.available; };
  const auto most = std::max_element(
      rooms.begin(), rooms.end(), [&](const auto& a, const auto& b) { return lack(a) < lack(b); });
  return most == rooms.end() || lack(*most) <= 0 ? nullptr : &*most;
}

// Settings that make a rank need less, and among how many ranks they divide parameters and
// optimizer state.
struct Relief {
  Remedy remedy;
  std::int64_t division = 1;
};

// The least change first; what does not apply to the run is refused when it is tried.
std::vector<Relief> reliefs(const spec::v1::RunSpec& spec, const cluster::Mesh& mesh,
                            std::int64_t division) {
  std::vector<Relief> out;
  const auto& strategy = spec.strategy();
  const cluster::Strategy* kind = cluster::findStrategy(strategy.kind());
  const std::int64_t batch = spec.training().batch();
  const int dataRanks = mesh.axisSize(cluster::kDataAxis), workers = mesh.workers();
  const std::int64_t least =
      static_cast<std::int64_t>(std::max(1, strategy.micro_batches())) * dataRanks;
  const Setting recompute{"strategy.recompute", "full"};
  out.push_back({{recompute}, division});
  // at least a sample for each rank
  for (const std::int64_t smaller : {batch / 2, batch / 8, least})
    if (smaller >= least && smaller < batch && smaller % least == 0)
      out.push_back({{{"training.batch", fmt::format("{}", smaller)}}, division});
  if (least < batch)
    out.push_back({{{"training.batch", fmt::format("{}", least)}, recompute}, division});
  if (kind->local || kind->servers || !strategy.pins().empty()) return out;
  if (!kind->splitParameters && dataRanks > 1) {
    out.push_back({{{"strategy.kind", "zero-3"}}, workers});
    out.push_back({{{"strategy.kind", "zero-3"}, recompute}, workers});
  }
  for (const int tensor : {2, 4, 8})
    if (workers % tensor == 0)
      out.push_back({{{"strategy.kind", tensor < workers ? "zero-3" : "multi-worker-mirrored"},
                      {"strategy.tensor", fmt::format("{}", tensor)},
                      {"strategy.stages", "1"},
                      recompute},
                     workers});
  for (const int tensor : {1, 8})
    for (const int stages : {2, 4, 8, 16})
      if (workers % (stages * tensor) == 0)
        out.push_back({{{"strategy.kind", "pipeline"},
                        {"strategy.stages", fmt::format("{}", stages)},
                        {"strategy.tensor", fmt::format("{}", tensor)},
                        recompute},
                       std::int64_t{stages} * tensor});
  return out;
}

// `chosen`: the spec says how large the ranks' shares are.
void addRemarks(Preview& preview, const LaunchRequest& request, bool chosen) {
  std::map<std::string, int> ranksOf;
  for (const auto& device : preview.cluster.devices)
    if (device.kind == "cpu") ranksOf[device.host] += device.threads;
  for (const auto& host : preview.cluster.hosts)
    if (const int threads = ranksOf[host.name]; threads > host.cores)
      preview.remarks.push_back(
          fmt::format("{} compute threads share the {} cores of one host, so a step takes longer "
                      "than on hosts of "
                      "their own",
                      threads, host.cores));
  if (const int stages = preview.plan.mesh.axisSize(cluster::kStageAxis); stages > 1) {
    std::set<int> idle;  // stages
    double waits = 0;    // the largest part of a step
    for (const RankPreview& rank : preview.ranks) {
      if (rank.parameterBytes == 0 && !rank.isServer())
        idle.insert(preview.plan.mesh.coordinate(rank.rank, cluster::kStageAxis));
      if (preview.stepSeconds > 0) waits = std::max(waits, rank.waiting / preview.stepSeconds);
    }
    if (!idle.empty())
      preview.remarks.push_back(
          fmt::format("stage {} of the pipeline has no parameters: use fewer stages, or strategy "
                      "placement to move layers",
                      fmt::join(idle, ", ")));
    // Micro-batches that the batch can be divided into, of which the stages' ranks have equal
    // shares.
    const std::int64_t batch = preview.plan.globalBatch,
                       ranks = preview.plan.mesh.axisSize(cluster::kDataAxis);
    std::int64_t better = 0;
    for (std::int64_t parts = preview.plan.microBatches + 1;
         parts * ranks <= batch && better < 4 * stages; ++parts)
      if (batch % (parts * ranks) == 0) better = parts;
    if (waits > 0.25 && preview.plan.microBatches < 4 * stages && better > 0)
      preview.remarks.push_back(
          fmt::format("ranks wait up to {:.0f} % of a step for other stages: set "
                      "strategy.micro_batches to {}, or use fewer stages",
                      waits * 100, better));
    else if (waits > 0.25)
      preview.remarks.push_back(
          fmt::format("ranks wait up to {:.0f} % of a step for other stages: use fewer stages, or "
                      "balance them with strategy placement",
                      waits * 100));
  }
  if (const std::int64_t window = planner::gatheredWindow(preview.plan, 0); window > 0)
    preview.remarks.push_back(
        fmt::format("rank 0 gathers at most {} of sharded parameters and gradients at a time",
                    mebibytes(window)));
  const auto isSum = [](const plan::StateSlot& slot) {
    return slot.role == plan::StateRole::kGradientSum;
  };
  if (preview.plan.strategy == "zero-2" &&
      std::none_of(preview.plan.state.begin(), preview.plan.state.end(), isSum))
    preview.remarks.push_back(
        "zero-2 holds what zero-1 holds where there is one micro-batch: in both a rank keeps its "
        "part of each "
        "gradient alone; what zero-2 divides besides is the sums of several");
  if (const auto& spent = preview.simulation.ranks; !spent.empty() && spent[0].hidden > 0)
    preview.remarks.push_back(fmt::format(
        "of the {} that rank 0's collectives take in a step, {} are hidden behind what it computes",
        milliseconds(spent[0].transfer + spent[0].hidden), milliseconds(spent[0].hidden)));
  if (const auto& encoded = preview.encoded; encoded.payload > 0)
    preview.remarks.push_back(fmt::format(
        "gradients travel as {}: {} become {}, {:.2f} times less; coding takes {} a step",
        encoded.coding, kibibytes(encoded.bytes), kibibytes(encoded.payload), encoded.ratio(),
        milliseconds(encoded.seconds)));
  if (const auto& tables = preview.tables; tables.tableBytes > 0)
    preview.remarks.push_back(
        fmt::format("tables of {} are on the servers by rows: rank 0 receives at most {} rows a "
                    "step, and exchanges at "
                    "most {}",
                    mebibytes(tables.tableBytes), tables.rows, mebibytes(tables.exchangedBytes)));
  const auto onGpu = [](const cluster::Device& device) { return device.kind == "cuda"; };
  const auto& devices = preview.cluster.devices;
  if (!preview.measured && std::any_of(devices.begin(), devices.end(), onGpu)) {
    const cluster::DeviceRates rates = cluster::assumedRates("cuda", preview.plan.precision);
    preview.remarks.push_back(
        fmt::format("GPUs are priced as {} at {:.0f} % of its data sheet: {:.1f} TFLOP/s in {}, "
                    "{:.0f} GB/s of memory; connect "
                    "the nodes to measure",
                    cluster::kAssumedGpu, 100 * cluster::kReachedShare, rates.flopsPerSecond / 1e12,
                    preview.plan.precision, rates.bytesPerSecond / 1e9));
    if (devices.size() > 1)
      preview.remarks.push_back(
          fmt::format("what ranks exchange is priced at {:.1f} GB/s{}",
                      preview.cluster.link.bytesPerSecond / 1e9,
                      preview.cluster.hosts.size() < 2 ? ""
                      : preview.cluster.link.kind == "nccl"
                          ? fmt::format(" between hosts, {:.1f} GB/s within one",
                                        cluster::assumedLink("nccl", false).bytesPerSecond / 1e9)
                          : " between hosts"));
  }
  if (const auto vocabulary = request.spec->model().input().vocabulary(); vocabulary > 256)
    preview.remarks.push_back(
        fmt::format("every byte of the text is a token, so that {} of the {} tokens of "
                    "model.input.vocabulary never occur",
                    vocabulary - 256, vocabulary));
  std::set<std::int64_t> shares;  // of the ranks that compute
  for (const RankPreview& rank : preview.ranks)
    if (rank.samples > 0) shares.insert(rank.samples);
  if (shares.size() > 1 && !chosen)
    preview.remarks.push_back(
        fmt::format("the batch of {} does not divide by {} ranks: shares are {} and {} samples",
                    preview.plan.globalBatch, preview.plan.mesh.axisSize("data"), *shares.rbegin(),
                    *shares.begin()));
}

}  // namespace

std::vector<std::int64_t> gpuMemory(const std::vector<std::string>& gpus) {
  std::vector<std::int64_t> out;
  for (const std::string& gpu : gpus) {
    const std::size_t comma = gpu.rfind(", ");
    std::int64_t mebi = 0;
    if (comma != std::string::npos && gpu.ends_with(" MiB"))
      std::from_chars(gpu.data() + comma + 2, gpu.data() + gpu.size(), mebi);
    out.push_back(mebi << 20);
  }
  return out;
}

std::int64_t RankPreview::totalBytes() const {
  return parameterBytes + optimizerBytes + gradientBytes + activationBytes + workspaceBytes;
}

namespace {

// All of a preview but its simulation, remarks and what to do about a misfit.
Result<std::pair<Preview, planner::PlanRequest>> planned(const LaunchRequest& request,
                                                         const std::vector<HostFacts>& hosts,
                                                         const planner::CostModel* measured,
                                                         passes::PassTrace* trace = nullptr) {
  spec::v1::ClusterSpec clusterSpec = *request.cluster;
  if (!request.comm.empty()) clusterSpec.set_comm(request.comm);
  std::vector<specs::NodeHost> nodeHosts;
  for (const HostFacts& facts : hosts) nodeHosts.push_back({facts.node, facts.host, facts.cores});

  Preview out;
  LOCKSTEP_ASSIGN(out.cluster, specs::toCluster(clusterSpec, nodeHosts, request.spec->strategy(),
                                                request.spec->training()));
  LOCKSTEP_ASSIGN(const models::Model model, specs::toModel(request.spec->model()));
  const auto& training = request.spec->training();
  const auto [compute, matmulDtype, tf32] = specs::precisionOf(training);
  planner::PlanRequest plan;
  plan.matmulDtype = matmulDtype;
  plan.tf32 = tf32;
  LOCKSTEP_ASSIGN(plan.microBatches,
                  specs::microBatches(*request.spec, out.cluster.mesh.axisSize("data")));
  plan.inOrder = request.spec->strategy().deterministic_parts() > 0;
  LOCKSTEP_ASSIGN(plan.step, models::build(model, training.batch() / plan.microBatches, compute,
                                           models::Use::kTraining, plan.microBatches));
  // Unless the spec says otherwise as many samples at once as are trained on: the ranks have memory
  // for them, and there is one for each.
  const bool choosesEvaluation = training.evaluate_batch() == 0;
  LOCKSTEP_ASSIGN(
      plan.evaluate,
      models::build(model, choosesEvaluation ? plan.step.batch : training.evaluate_batch(), compute,
                    models::Use::kEvaluation));
  plan.training = trainOptions(training);
  plan.strategy = request.spec->strategy().kind();
  plan.staleness = request.spec->strategy().staleness();
  if (!request.spec->strategy().dense().empty()) plan.dense = request.spec->strategy().dense();
  plan.bucketBytes = request.spec->strategy().bucket_bytes();
  if (!request.spec->strategy().all_reduce().empty())
    plan.allReduce = request.spec->strategy().all_reduce();
  if (!request.spec->strategy().compression().empty())
    plan.compression = request.spec->strategy().compression();
  if (!request.spec->strategy().overlap().empty())
    plan.overlap = request.spec->strategy().overlap();
  plan.gatherBytes = request.spec->strategy().gather_bytes();
  if (!request.spec->strategy().recompute().empty())
    plan.recompute = request.spec->strategy().recompute();
  plan.topKAfter = request.spec->strategy().top_k_after();
  if (request.spec->strategy().top_k_ratio() > 0)
    plan.topKRatio = request.spec->strategy().top_k_ratio();
  plan.shares.assign(request.spec->strategy().shares().begin(),
                     request.spec->strategy().shares().end());
  for (const auto& pin : request.spec->strategy().pins())
    plan.pins.emplace_back(pin.layer(), pin.stage());
  if (!request.spec->strategy().schedule().empty())
    plan.schedule = request.spec->strategy().schedule();
  if (measured != nullptr) out.cost = *measured;
  out.measured = measured != nullptr;
  LOCKSTEP_ASSIGN(out.plan, planner::makePlan(plan, out.cluster, out.cost, trace));
  out.planText = plan::text(out.plan);
  out.planHash = plan::hash(out.plan);
  out.comm = out.cluster.link.kind;
  if (out.comm == "nccl" && clusterSpec.comm().empty()) {
    const auto& devices = out.cluster.devices;
    const bool oneNode = std::all_of(devices.begin(), devices.end(), [&](const auto& device) {
      return device.node == devices[0].node;
    });
    out.comm = oneNode ? "shm" : "gloo";
    out.remarks.push_back(
        "the ranks' GPUs exchange among themselves, by NCCL; where the nodes do not have it, "
        "through the host");
  }
  for (int rank = 0; rank < out.plan.mesh.size(); ++rank) {
    const auto index = static_cast<std::size_t>(rank);
    const cluster::Device& device = out.cluster.devices[index];
    const bool server = out.plan.mesh.isServer(rank);
    const auto share =
        static_cast<std::size_t>(server ? 0 : out.plan.mesh.coordinate(rank, "data"));
    const planner::RankMemory memory = planner::memory(out.plan, rank, device.kind == "cuda");
    RankPreview row;
    row.rank = rank;
    row.node = device.node;
    row.device = fmt::format("{} {}", device.kind, device.index);
    row.threads = device.threads;
    row.samples = server ? 0
                         : (out.plan.batchCuts[share + 1] - out.plan.batchCuts[share]) *
                               out.plan.microBatches;
    row.parameterBytes = memory.parameters;
    row.optimizerBytes = memory.optimizer;
    row.gradientBytes = memory.gradients;
    row.activationBytes = memory.activations;
    row.workspaceBytes = memory.workspace;
    out.ranks.push_back(std::move(row));
  }
  if (const auto* node = specs::evaluatorNode(clusterSpec)) {
    planner::PlanRequest apart = plan;
    if (choosesEvaluation) {  // of one rank: as many as one of the ranks trains on
      LOCKSTEP_ASSIGN(apart.evaluate, models::build(model, largestShare(out.plan.batchCuts),
                                                    compute, models::Use::kEvaluation));
    }
    LOCKSTEP_TRY(addEvaluator(out, *node, request, apart));
  }
  return std::pair(std::move(out), std::move(plan));
}

constexpr int kReliefsTried = 8;  // each is planned

// Why it does not fit and, of what people do about that, the first settings with which it does.
std::optional<Error> misfitOf(const Preview& preview, const LaunchRequest& request,
                              const std::vector<HostFacts>& hosts) {
  const std::vector<Room> rooms = roomsOf(preview, hosts);
  const Room* room = fullest(rooms);
  if (room == nullptr) return std::nullopt;
  Error error = makeError(
      Code::kResourceExhausted, "the run does not fit in memory: {} has {}, and {}", room->where,
      sizeText(room->available),
      room->ranks == 1 ? fmt::format("its rank needs {}", sizeText(room->needed))
                       : fmt::format("its {} ranks need {}", room->ranks, sizeText(room->needed)));
  if (room->assumed)
    error.why =
        fmt::format("it is taken for an {} until its node is connected", cluster::kAssumedGpu);
  // What no rank can do without, if it were divided among as many as a relief divides it.
  const cluster::Mesh& mesh = preview.cluster.mesh;
  const cluster::Strategy& kind = *cluster::findStrategy(request.spec->strategy().kind());
  const std::int64_t division = std::int64_t{mesh.axisSize(cluster::kModelAxis)} *
                                mesh.axisSize(cluster::kStageAxis) *
                                (kind.splitParameters ? mesh.axisSize(cluster::kDataAxis) : 1);
  std::int64_t state = 0;
  for (const RankPreview& rank : preview.ranks)
    state = std::max(state, rank.parameterBytes + rank.optimizerBytes);
  if (kind.splitOptimizer && !kind.splitParameters)
    for (const RankPreview& rank : preview.ranks)
      state = std::max(
          state, rank.parameterBytes + rank.optimizerBytes * mesh.axisSize(cluster::kDataAxis));
  state *= division;
  int tries = 0;
  for (const Relief& relief : reliefs(*request.spec, mesh, division)) {
    if (room->ranks * state / relief.division > room->available) continue;
    if (++tries > kReliefsTried) break;
    auto spec = std::make_shared<spec::v1::RunSpec>(*request.spec);
    Status applied;
    for (const auto& [field, value] : relief.remedy)
      if (applied.ok()) applied = applySet(*spec, field + "=" + value);
    if (applied.ok()) applied = specs::checkAndFill(*spec);
    if (!applied.ok()) continue;
    LaunchRequest other = request;
    other.spec = std::move(spec);
    const auto made = planned(other, hosts, nullptr);
    if (!made.ok()) continue;
    const std::vector<Room> needs = roomsOf(made->first, hosts);
    if (fullest(needs) == nullptr) return withRemedies(std::move(error), {relief.remedy});
  }
  error.next = fmt::format(
      "use more ranks, a smaller batch or a smaller model, whose parameters and optimizer state "
      "are {}",
      sizeText(state));
  return error;
}

}  // namespace

Result<Preview> makePreview(const LaunchRequest& request, const std::vector<HostFacts>& hosts,
                            const planner::CostModel* measured, passes::PassTrace* trace) {
  LOCKSTEP_ASSIGN(auto made, planned(request, hosts, measured, trace));
  auto& [out, plan] = made;
  const auto& training = request.spec->training();
  out.encoded = planner::encodedGradients(out.plan, 0);
  out.tables = planner::servedTables(out.plan, 0);
  out.simulation = planner::simulate(out.plan, out.cluster, out.cost);
  out.stepSeconds = out.simulation.stepSeconds;
  out.samplesPerSecond =
      out.stepSeconds > 0 ? static_cast<double>(out.plan.globalBatch) / out.stepSeconds : 0;
  for (RankPreview& row : out.ranks) {
    const auto& spent = out.simulation.ranks[static_cast<std::size_t>(row.rank)];
    row.data = spent.data;
    row.forward = spent.forward;
    row.backward = spent.backward;
    row.waiting = spent.waiting;
    row.transfer = spent.transfer;
    row.hidden = spent.hidden;
    row.optimizer = spent.optimizer;
  }
  out.misfit = misfitOf(out, request, hosts);
  addRemarks(out, request, !plan.shares.empty());
  for (const auto& node : request.cluster->nodes()) {
    const bool serves =
        std::find(node.roles().begin(), node.roles().end(), "ps") != node.roles().end();
    if (serves && out.plan.mesh.servers() == 0)
      out.remarks.push_back(
          fmt::format("node {} takes no part: its role is ps, and strategy {} has no servers",
                      node.name(), out.plan.strategy));
  }
  if (out.plan.find("weights") != nullptr)
    out.remarks.push_back(
        "with zb-h1 a stage keeps what gradients of weights are made of until their turn: up to "
        "about twice "
        "the activations that the first stage keeps with 1f1b");
  if (plan.inOrder) {
    std::int64_t sums = 0;
    for (const auto& slot : out.plan.state)
      if (slot.role == plan::StateRole::kGradientSum) sums += slot.type.bytes();
    const int ranks = out.plan.mesh.axisSize("data");
    out.remarks.push_back(
        fmt::format("gradients of {} parts are added up in one order: a rank receives {} a step "
                    "for it, where sums alone would take {}",
                    request.spec->strategy().deterministic_parts(),
                    kibibytes((ranks - 1) * sums * plan.microBatches),
                    kibibytes(2 * (ranks - 1) * sums / ranks)));
  }
  const cluster::Strategy* const kind = cluster::findStrategy(plan.strategy);
  if (kind != nullptr && kind->local && request.spec->strategy().local_steps() == 0)
    out.remarks.push_back(
        fmt::format("strategy.local_steps is chosen: {}, the largest divisor of the batch of {} up "
                    "to {} that leaves each rank a sample "
                    "of each part",
                    plan.microBatches, training.batch(), specs::kLocalSteps));
  if (const double scale = specs::rateScale(training); scale != 1)
    out.remarks.push_back(fmt::format(
        "the learning rate is {:.6g}: {:.6g} for a batch of {}, in proportion to this one of {}",
        training.optimizer().learning_rate() * scale, training.optimizer().learning_rate(),
        training.optimizer().for_batch(), training.batch()));
  return std::move(out);
}

namespace {

// Bytes that programs started now can have; 0 unknown.
std::int64_t memoryHere() {
  const auto text = readFile("/proc/meminfo", std::size_t{1} << 16);
  const std::size_t at = text.ok() ? text->find("MemAvailable:") : std::string::npos;
  return at == std::string::npos ? 0 : std::strtoll(text->c_str() + at + 13, nullptr, 10) * 1024;
}

}  // namespace

int usableCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
}

std::vector<HostFacts> hostsHere(const spec::v1::ClusterSpec& cluster) {
  std::vector<HostFacts> out;
  const std::int64_t memory = memoryHere();
  for (const auto& node : cluster.nodes())
    if (!node.has_ssh()) out.push_back({node.name(), bootId(), usableCores(), memory});
  return out;
}

std::string predictionJson(const Preview& preview) {
  json out = {{"step_seconds", preview.stepSeconds},
              {"samples_per_second", preview.samplesPerSecond},
              {"measured", preview.measured},
              {"comm", preview.comm},
              {"misfit", preview.misfit ? preview.misfit->text() : ""},
              {"plan_hash", preview.planHash},
              {"world", preview.plan.mesh.size()},
              {"compression",
               {{"coding", preview.encoded.coding},
                {"gradient_bytes", preview.encoded.bytes},
                {"payload_bytes", preview.encoded.payload},
                {"ratio", preview.encoded.ratio()},
                {"seconds", preview.encoded.seconds}}},
              {"tables",
               {{"table_bytes", preview.tables.tableBytes},
                {"rows_at_most", preview.tables.rows},
                {"exchanged_bytes_at_most", preview.tables.exchangedBytes}}},
              {"messages", json::array()},
              {"remarks", preview.remarks},
              {"ranks", json::array()}};
  for (const planner::Traffic& link : planner::messageTraffic(preview.plan))
    out["messages"].push_back(
        {{"from", link.from}, {"to", link.to}, {"bytes", link.bytes}, {"at_most", link.atMost}});
  for (const RankPreview& rank : preview.ranks)
    out["ranks"].push_back({{"rank", rank.rank},
                            {"node", rank.node},
                            {"device", rank.device},
                            {"threads", rank.threads},
                            {"samples", rank.samples},
                            {"parameter_bytes", rank.parameterBytes},
                            {"optimizer_bytes", rank.optimizerBytes},
                            {"gradient_bytes", rank.gradientBytes},
                            {"activation_bytes", rank.activationBytes},
                            {"workspace_bytes", rank.workspaceBytes},
                            {"data", rank.data},
                            {"forward", rank.forward},
                            {"backward", rank.backward},
                            {"waiting", rank.waiting},
                            {"transfer", rank.transfer},
                            {"hidden", rank.hidden},
                            {"optimizer", rank.optimizer}});
  return out.dump();
}

Result<Preview> parsePrediction(const std::string& text) {
  const json in = json::parse(text, nullptr, false);
  if (!in.is_object())
    return makeError(Code::kDataLoss, "the prediction kept with the run is not JSON");
  const auto number = [](const json& from, const char* key) {
    const auto found = from.find(key);
    return found != from.end() && found->is_number() ? found->get<double>() : 0.0;
  };
  const auto string = [](const json& from, const char* key) {
    const auto found = from.find(key);
    return found != from.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  Preview out;
  out.stepSeconds = number(in, "step_seconds");
  out.samplesPerSecond = number(in, "samples_per_second");
  out.measured = in.value("measured", json(false)).is_boolean() && in.value("measured", false);
  out.comm = string(in, "comm");
  out.planHash = string(in, "plan_hash");
  if (const auto remarks = in.find("remarks"); remarks != in.end() && remarks->is_array())
    for (const json& remark : *remarks)
      if (remark.is_string()) out.remarks.push_back(remark.get<std::string>());
  const auto ranks = in.find("ranks");
  if (ranks == in.end() || !ranks->is_array()) return out;
  for (const json& from : *ranks) {
    if (!from.is_object()) continue;
    RankPreview rank;
    rank.rank = static_cast<int>(number(from, "rank"));
    rank.node = string(from, "node");
    rank.device = string(from, "device");
    rank.threads = static_cast<int>(number(from, "threads"));
    rank.samples = static_cast<std::int64_t>(number(from, "samples"));
    rank.parameterBytes = static_cast<std::int64_t>(number(from, "parameter_bytes"));
    rank.optimizerBytes = static_cast<std::int64_t>(number(from, "optimizer_bytes"));
    rank.gradientBytes = static_cast<std::int64_t>(number(from, "gradient_bytes"));
    rank.activationBytes = static_cast<std::int64_t>(number(from, "activation_bytes"));
    rank.workspaceBytes = static_cast<std::int64_t>(number(from, "workspace_bytes"));
    rank.data = number(from, "data");
    rank.forward = number(from, "forward");
    rank.backward = number(from, "backward");
    rank.waiting = number(from, "waiting");
    rank.transfer = number(from, "transfer");
    rank.hidden = number(from, "hidden");
    rank.optimizer = number(from, "optimizer");
    out.ranks.push_back(std::move(rank));
  }
  return out;
}

std::string previewText(const Preview& preview) {
  std::string out = preview.misfit ? preview.misfit->text() + "\n\n" : "";
  out += fmt::format(
      "{} {}, {}, global batch {}\npredicted step {}, {:.0f} samples/s ({})\n\n",
      preview.ranks.size(), preview.ranks.size() == 1 ? "rank" : "ranks", preview.comm,
      preview.plan.globalBatch, milliseconds(preview.stepSeconds), preview.samplesPerSecond,
      preview.measured ? "from costs measured on the nodes" : "from built-in costs, not measured");
  out += fmt::format("{:>4}  {:<12} {:<8} {:>7} {:>11} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}\n",
                     "rank", "node", "device", "samples", "memory", "data", "forward", "backward",
                     "waiting", "transfer", "optimizer");
  for (const RankPreview& rank : preview.ranks)
    out += fmt::format(
        "{:>4}  {:<12} {:<8} {:>7} {:>11} {:>6.3f} ms {:>6.3f} ms {:>6.3f} ms {:>6.3f} ms {:>6.3f} "
        "ms "
        "{:>6.3f} ms\n",
        rank.rank, rank.node, rank.device,
        rank.isServer() ? "server" : fmt::format("{}", rank.samples), mebibytes(rank.totalBytes()),
        rank.data * 1e3, rank.forward * 1e3, rank.backward * 1e3, rank.waiting * 1e3,
        rank.transfer * 1e3, rank.optimizer * 1e3);
  for (const std::string& remark : preview.remarks) out += "\nnote: " + remark + "\n";
  return out;
}

}  // namespace lockstep::app
