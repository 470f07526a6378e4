#include "app/runs/preview.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>

#include "app/runs/preview_memory.h"
#include "app/runs/preview_remarks.h"
#include "app/runs/quantity_text.h"
#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/cluster/cuts.h"
#include "engine/models/model.h"
#include "engine/plan/pieces.h"
#include "engine/plan/wait_limit.h"
#include "engine/specs/planned.h"
#include "engine/specs/specs.h"
#include "engine/specs/workload.h"
#include "lockstep/spec/v1/spec.pb.h"

namespace lockstep::app {
namespace {

Status addEvaluator(Preview& preview, const spec::v1::NodeSpec& node, const LaunchRequest& request,
                    const planner::PlanRequest& plan) {
  if (request.spec->training().checkpoint().disabled()) {
    Error error =
        invalidArgument("node {} is to evaluate checkpoints, and the run makes none", node.name());
    error.field = "training.checkpoint.disabled";
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
      message("node {} evaluates after each epoch in place of the ranks: it needs {} of memory",
              node.name(), mebibytes(preview.evaluator->totalBytes)));
  return {};
}

}  // namespace

std::vector<std::int64_t> gpuMemory(const std::vector<std::string>& gpus) {
  constexpr std::int64_t kMostMebi = std::int64_t{1} << 40;
  std::vector<std::int64_t> out;
  for (const std::string& gpu : gpus) {
    const std::size_t comma = gpu.rfind(", ");
    std::int64_t mebi = 0;
    if (comma != std::string::npos && gpu.ends_with(" MiB"))
      std::from_chars(gpu.data() + comma + 2, gpu.data() + gpu.size(), mebi);
    out.push_back(std::clamp<std::int64_t>(mebi, 0, kMostMebi) << 20);
  }
  return out;
}

std::int64_t RankPreview::totalBytes() const {
  return parameterBytes + optimizerBytes + gradientBytes + activationBytes + workspaceBytes;
}

namespace {

// The comm that the spec names, or that fits where it names none.
void chooseComm(const spec::v1::ClusterSpec& cluster, Preview& out) {
  out.comm = out.cluster.link.kind;
  if (out.comm == "nccl" && cluster.comm().empty()) {
    const auto& devices = out.cluster.devices;
    const bool oneNode = std::all_of(devices.begin(), devices.end(), [&](const auto& device) {
      return device.node == devices[0].node;
    });
    out.comm = oneNode ? "shm" : "gloo";
    out.remarks.push_back(
        "the ranks' GPUs exchange among themselves, by NCCL; where the nodes do not have it, "
        "through the host");
  }
}

// The snapshot of a checkpoint that a rank holds while it writes it: see
// engine/runtime/checkpoint_writer.h.
std::int64_t snapshotBytes(const Preview& preview, int rank, bool isShared) {
  return plan::bytesWrittenBy(preview.plan, rank, checkpointFolders(preview.cluster, isShared));
}

// What ranks need that run the same: a plan has few kinds of them.
class Memories {
 public:
  const planner::RankMemory& of(const plan::Plan& plan, int rank, bool onDevice) {
    std::vector<int> kind{plan.stageOf(rank), onDevice ? 1 : 0};
    for (const plan::Program& program : plan.programs)
      kind.push_back(program.bodyOfRank[static_cast<std::size_t>(rank)]);
    const auto [known, isNew] = known_.try_emplace(std::move(kind));
    if (isNew) known->second = planner::memory(plan, rank, onDevice);
    return known->second;
  }

 private:
  std::map<std::vector<int>, planner::RankMemory> known_;  // by stage, device and bodies
};

// A rank's share of the batch and its memory.
RankPreview rankOf(const Preview& preview, int rank, const spec::v1::RunSpec& spec,
                   Memories& memories) {
  const auto index = static_cast<std::size_t>(rank);
  const cluster::Device& device = preview.cluster.devices[index];
  const bool server = preview.plan.mesh.isServer(rank);
  const auto share =
      static_cast<std::size_t>(server ? 0 : preview.plan.mesh.coordinate(rank, "data"));
  const planner::RankMemory& memory = memories.of(preview.plan, rank, device.kind == "cuda");
  RankPreview row;
  row.rank = rank;
  row.node = device.node;
  row.device = fmt::format("{} {}", device.kind, device.index);
  row.threads = device.threads;
  row.samples = server ? 0
                       : (preview.plan.batchCuts[share + 1] - preview.plan.batchCuts[share]) *
                             preview.plan.microBatches;
  row.parameterBytes = memory.parameters;
  row.optimizerBytes = memory.optimizer;
  row.gradientBytes = memory.gradients;
  row.activationBytes = memory.activations;
  row.workspaceBytes = memory.workspace;
  if (!spec.training().checkpoint().disabled() && device.kind == "cpu")
    row.workspaceBytes += snapshotBytes(preview, rank, specs::sharesCheckpoints(spec));
  return row;
}

std::vector<specs::NodeHost> nodeHostsOf(const std::vector<HostFacts>& hosts) {
  std::vector<specs::NodeHost> out;
  for (const HostFacts& facts : hosts) out.push_back({facts.node, facts.host, facts.cores});
  return out;
}

void remarkOnFrozen(const std::vector<ir::Parameter>& parameters, Preview& out) {
  std::int64_t all = 0, frozen = 0;
  for (const ir::Parameter& parameter : parameters) {
    all += elementCount(parameter.shape);
    frozen += parameter.frozen ? elementCount(parameter.shape) : 0;
  }
  if (frozen > 0)
    out.remarks.push_back(
        message("{} of {} parameters are frozen: they have no gradient and no optimizer state",
                frozen, all));
}

// All of a preview but the plan's text, its simulation, remarks and what to do about a misfit.
Result<std::pair<Preview, planner::PlanRequest>> makePlanned(const LaunchRequest& request,
                                                             const std::vector<HostFacts>& hosts,
                                                             const planner::CostModel* measured,
                                                             passes::PassTrace* trace = nullptr) {
  LOCKSTEP_ASSIGN(spec::v1::ClusterSpec clusterSpec,
                  specs::withSpares(request.spec->recovery(), *request.cluster));
  if (!request.comm.empty()) clusterSpec.set_comm(request.comm);
  const std::vector<specs::NodeHost> nodeHosts = nodeHostsOf(hosts);
  Preview out;
  out.power = powerAndPrices(clusterSpec);
  if (measured != nullptr) out.cost = *measured;
  out.measured = measured != nullptr;
  LOCKSTEP_ASSIGN(specs::Planned planned,
                  specs::makePlanned(*request.spec, clusterSpec, nodeHosts, out.cost, trace));
  out.cluster = std::move(planned.cluster);
  out.plan = std::move(planned.plan);
  remarkOnFrozen(planned.request.step.parameters, out);
  chooseComm(clusterSpec, out);
  Memories memories;
  for (int rank = 0; rank < out.plan.mesh.size(); ++rank)
    out.ranks.push_back(rankOf(out, rank, *request.spec, memories));
  addSpares(out, *request.spec, clusterSpec);
  if (const auto* node = specs::evaluatorNode(clusterSpec)) {
    planner::PlanRequest apart = planned.request;
    // of one rank: as many as one of the ranks trains on
    if (request.spec->training().evaluate_batch() == 0) {
      LOCKSTEP_ASSIGN(apart.evaluate,
                      models::build(planned.model, cluster::largestPart(out.plan.batchCuts),
                                    specs::precisionOf(request.spec->training()).compute,
                                    models::Use::kEvaluation));
    }
    LOCKSTEP_TRY(addEvaluator(out, *node, request, apart));
  }
  return std::pair(std::move(out), std::move(planned.request));
}

}  // namespace

void simulate(Preview& preview, const planner::SimulateOptions& options) {
  preview.simulation = planner::simulate(preview.plan, preview.cluster, preview.cost, options);
  preview.stepSeconds = preview.simulation.stepSeconds;
  preview.samplesPerSecond =
      preview.stepSeconds > 0 ? static_cast<double>(preview.plan.globalBatch) / preview.stepSeconds
                              : 0;
  for (RankPreview& row : preview.ranks) {
    const auto& spent = preview.simulation.ranks[static_cast<std::size_t>(row.rank)];
    row.data = spent.data;
    row.forward = spent.forward;
    row.backward = spent.backward;
    row.waiting = spent.waiting;
    row.transfer = spent.transfer;
    row.hidden = spent.hidden;
    row.optimizer = spent.optimizer;
  }
}

RankPreview meanOfWorkers(const Preview& preview) {
  constexpr std::array kParts{&RankPreview::data,     &RankPreview::forward,
                              &RankPreview::backward, &RankPreview::waiting,
                              &RankPreview::transfer, &RankPreview::optimizer,
                              &RankPreview::hidden};
  RankPreview out;
  double workers = 0;
  for (const RankPreview& rank : preview.ranks) {
    if (rank.isServer()) continue;
    ++workers;
    for (double RankPreview::*part : kParts) out.*part += rank.*part;
  }
  for (double RankPreview::*part : kParts) out.*part /= std::max(1.0, workers);
  return out;
}

double bubbleShare(const Preview& preview) {
  return preview.stepSeconds > 0 ? meanOfWorkers(preview).waiting / preview.stepSeconds : 0;
}

// For figures alone.
static void simulateBriefly(Preview& preview) {
  planner::SimulateOptions options;
  options.steps = 2;  // the second is like all others
  options.events = false;
  simulate(preview, options);
}

Result<Preview> makeBriefPreview(const LaunchRequest& request, const std::vector<HostFacts>& hosts,
                                 const planner::CostModel* measured) {
  LOCKSTEP_ASSIGN(auto made, makePlanned(request, hosts, measured));
  Preview& out = made.first;
  simulateBriefly(out);
  out.misfit = misfitOf(out, hosts);
  return std::move(out);
}

namespace {

Result<Preview> makeProgramPreview(const LaunchRequest& request,
                                   const std::vector<specs::NodeHost>& hosts) {
  Preview out;
  LOCKSTEP_ASSIGN(const spec::v1::ClusterSpec cluster,
                  specs::withSpares(request.spec->recovery(), *request.cluster));
  LOCKSTEP_ASSIGN(specs::Planned planned,
                  specs::makePlanned(*request.spec, cluster, hosts, out.cost));
  out.cluster = std::move(planned.cluster);
  out.plan = std::move(planned.plan);
  out.planText = plan::text(out.plan);
  out.planHash = plan::hash(out.plan);
  for (int rank = 0; rank < out.plan.mesh.size(); ++rank) {
    const cluster::Device& device = out.cluster.devices[static_cast<std::size_t>(rank)];
    RankPreview& row = out.ranks.emplace_back();
    row.rank = rank;
    row.node = device.node;
    row.device = fmt::format("{} {}", device.kind, device.index);
    row.threads = device.threads;
  }
  addSpares(out, *request.spec, specs::placed(*request.spec, cluster));
  if (const auto* node = specs::evaluatorNode(cluster))
    out.remarks.push_back(
        message("node {} has no ranks: a program evaluates by itself", node->name()));
  return out;
}

}  // namespace

bool Preview::ofProgram() const { return plan.strategy == specs::kProgramStrategy; }

Result<Preview> makePreview(const LaunchRequest& request, const std::vector<HostFacts>& hosts,
                            const planner::CostModel* measured, passes::PassTrace* trace,
                            bool events) {
  if (request.spec->has_workload()) return makeProgramPreview(request, nodeHostsOf(hosts));
  LOCKSTEP_ASSIGN(auto made, makePlanned(request, hosts, measured, trace));
  auto& [out, plan] = made;
  out.planText = plan::text(out.plan);
  out.planHash = plan::hash(out.plan);
  out.encoded = planner::encodedGradients(out.plan, 0);
  out.tables = plan::servedTables(out.plan, 0);
  planner::SimulateOptions options;
  options.events = events;
  simulate(out, options);
  const auto replan = [&](const std::shared_ptr<const spec::v1::RunSpec>& spec) -> Result<Preview> {
    LaunchRequest other = request;
    other.spec = spec;
    LOCKSTEP_ASSIGN(auto planned, makePlanned(other, hosts, nullptr));
    simulateBriefly(planned.first);
    return std::move(planned.first);
  };
  out.misfit = misfitOf(out, hosts);
  if (out.misfit)
    out.misfit = withRelief(*std::move(out.misfit), out, *request.spec, hosts, replan);
  addRemarks(out, request, plan);
  if (!request.chosen.empty()) out.remarks.insert(out.remarks.begin(), request.chosen);
  return std::move(out);
}

std::vector<int> checkpointFolders(const cluster::Cluster& cluster, bool isShared) {
  std::map<std::string, int> firsts;  // by node
  std::vector<int> out;
  for (const cluster::Device& device : cluster.devices) {
    const std::string folder = isShared ? "" : device.node;
    out.push_back(firsts.try_emplace(folder, static_cast<int>(out.size())).first->second);
  }
  return out;
}

std::int64_t wireBytes(const plan::Plan& plan) { return plan::exchangedBytes(plan, 0); }

std::int64_t linkBytes(const Preview& preview) {
  if (preview.plan.mesh.size() > kMostLinkedRanks) return 0;
  std::map<std::pair<std::string, std::string>, std::int64_t> links;
  for (const plan::Traffic& sent : plan::stepTraffic(preview.plan)) {
    const std::string& from = preview.ranks[static_cast<std::size_t>(sent.from)].node;
    const std::string& to = preview.ranks[static_cast<std::size_t>(sent.to)].node;
    if (from != to) links[std::minmax(from, to)] += sent.bytes;
  }
  std::int64_t most = 0;
  for (const auto& [link, bytes] : links) most = std::max(most, bytes);
  return most;
}

Nanoseconds collectiveLimit(const Preview& preview) {
  return preview.comm == "nccl" ? plan::deviceLimit(preview.plan)
                                : plan::collectiveLimit(preview.plan);
}

std::int64_t peakMemory(const Preview& preview) {
  std::int64_t most = 0;
  for (const auto& rank : preview.ranks) most = std::max(most, rank.totalBytes());
  return most;
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
    if (!node.has_ssh() && !cluster.has_placement())
      out.push_back({node.name(), bootId(), usableCores(), memory});
  return out;
}

}  // namespace lockstep::app
