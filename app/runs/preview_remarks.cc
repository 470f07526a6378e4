#include "app/runs/preview_remarks.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "app/runs/quantity_text.h"
#include "engine/cluster/assumed.h"
#include "engine/cluster/strategies.h"
#include "engine/plan/pieces.h"
#include "engine/plan/wait_limit.h"
#include "engine/specs/specs.h"
#include "engine/specs/workload.h"
#include "lockstep/spec/v1/spec.pb.h"

namespace lockstep::app {
namespace {

void remarkOnCores(Preview& preview) {
  std::map<std::string, int> ranksOf;
  for (const auto& device : preview.cluster.devices)
    if (device.kind == "cpu") ranksOf[device.host] += device.threads;
  for (const auto& host : preview.cluster.hosts)
    if (const int threads = ranksOf[host.name]; threads > host.cores)
      preview.remarks.push_back(
          message("{} compute threads share the {} cores of one host, so a step takes longer "
                  "than on hosts of "
                  "their own",
                  threads, host.cores));
}

void remarkOnStages(Preview& preview) {
  const int stages = preview.plan.mesh.axisSize(cluster::kStageAxis);
  if (stages == 1) return;
  std::set<int> idle;  // stages
  double waits = 0;    // the largest part of a step
  for (const RankPreview& rank : preview.ranks) {
    if (rank.parameterBytes == 0 && !rank.isServer())
      idle.insert(preview.plan.mesh.coordinate(rank.rank, cluster::kStageAxis));
    if (preview.stepSeconds > 0) waits = std::max(waits, rank.waiting / preview.stepSeconds);
  }
  if (!idle.empty())
    preview.remarks.push_back(
        message("stage {} of the pipeline has no parameters: use fewer stages, or strategy "
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
        message("ranks wait up to {:.0f} % of a step for other stages: set "
                "strategy.micro_batches to {}, or use fewer stages",
                waits * 100, better));
  else if (waits > 0.25)
    preview.remarks.push_back(
        message("ranks wait up to {:.0f} % of a step for other stages: use fewer stages, or "
                "balance them with strategy placement",
                waits * 100));
  if (preview.plan.find("weights") != nullptr)
    preview.remarks.push_back(
        "with zb-h1 a stage keeps what gradients of weights are made of until their turn: up to "
        "about twice "
        "the activations that the first stage keeps with 1f1b");
}

void remarkOnCommunication(Preview& preview) {
  if (const std::int64_t window = planner::gatheredWindow(preview.plan, 0); window > 0)
    preview.remarks.push_back(
        message("rank 0 gathers at most {} of sharded parameters and gradients at a time",
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
    preview.remarks.push_back(
        message("rank 0's collectives take {} a step, of which {} are hidden behind computation",
                milliseconds(spent[0].transfer + spent[0].hidden), milliseconds(spent[0].hidden)));
  if (const auto& encoded = preview.encoded; encoded.payload > 0)
    preview.remarks.push_back(message(
        "gradients are sent as {}: {} become {}, {:.2f} times less; a rank receives {} a step, "
        "where uncompressed ones take {}; encoding takes {} a step",
        encoded.coding, kibibytes(encoded.bytes), kibibytes(encoded.payload), encoded.ratio(),
        kibibytes(encoded.moved), kibibytes(encoded.plain), milliseconds(encoded.seconds)));
  if (const auto& tables = preview.tables; tables.tableBytes > 0)
    preview.remarks.push_back(
        message("tables of {} are divided over the servers by rows: rank 0 receives at most {} "
                "rows a step, and exchanges at most {}",
                mebibytes(tables.tableBytes), tables.rows, mebibytes(tables.exchangedBytes)));
}

void remarkOnPrices(Preview& preview) {
  const auto onGpu = [](const cluster::Device& device) { return device.kind == "cuda"; };
  const auto& devices = preview.cluster.devices;
  if (!preview.measured && std::any_of(devices.begin(), devices.end(), onGpu)) {
    std::set<std::string> told;
    for (const cluster::Device& device : devices) {
      if (!onGpu(device)) continue;
      const cluster::DeviceRates rates = cluster::assumedRates(device, preview.plan.precision);
      const bool isGiven = device.figures.peakFlops > 0 || device.figures.peakBytesPerSecond > 0;
      const std::string figures =
          fmt::format("{:.1f} TFLOP/s {} {:.0f} GB/s", rates.flopsPerSecond / 1e12,
                      preview.plan.precision, rates.bytesPerSecond / 1e9);
      const std::string model =
          device.figures.model.empty() ? std::string(cluster::kAssumedGpu) : device.figures.model;
      if (!told.insert(model + figures).second) continue;
      preview.remarks.push_back(
          isGiven ? message("GPUs are priced by the peaks in the cluster and what is reached of "
                            "such: {:.1f} TFLOP/s in {}, {:.0f} GB/s of memory; connect the nodes "
                            "to measure",
                            rates.flopsPerSecond / 1e12, preview.plan.precision,
                            rates.bytesPerSecond / 1e9)
                  : message("GPUs are priced as {} by its data sheet and what is reached of such: "
                            "{:.1f} TFLOP/s in {}, {:.0f} GB/s of memory; connect the nodes to "
                            "measure",
                            model, rates.flopsPerSecond / 1e12, preview.plan.precision,
                            rates.bytesPerSecond / 1e9));
    }
    for (const auto& [axis, link] : preview.cluster.links)
      preview.remarks.push_back(
          message("communication along axis {} is priced at {} per rank and direction", axis,
                  perSecond(link.bytesPerSecond)));
    if (devices.size() > 1 && preview.cluster.links.empty())
      preview.remarks.push_back(message("communication is priced at {} per rank and direction{}",
                                        perSecond(preview.cluster.link.bytesPerSecond),
                                        preview.cluster.hosts.size() < 2 ? "" : " between hosts"));
  }
}

void remarkOnRoles(Preview& preview, const spec::v1::ClusterSpec& cluster) {
  for (const auto& node : cluster.nodes()) {
    const bool serves =
        std::find(node.roles().begin(), node.roles().end(), "ps") != node.roles().end();
    if (serves && preview.plan.mesh.servers() == 0)
      preview.remarks.push_back(
          message("node {} takes no part: its role is ps, and strategy {} has no servers",
                  node.name(), preview.plan.strategy));
  }
}

// Remarks on values that the planner has chosen or derived.
void remarkOnChoices(Preview& preview, const spec::v1::RunSpec& spec,
                     const planner::PlanRequest& plan) {
  const auto& training = spec.training();
  if (plan.inOrder) {
    std::int64_t sums = 0;
    for (const auto& slot : preview.plan.state)
      if (slot.role == plan::StateRole::kGradientSum) sums += slot.type.bytes();
    const int ranks = preview.plan.mesh.axisSize("data");
    preview.remarks.push_back(message(
        "gradients of {} parts are summed in a fixed order: a rank receives {} a step for that, "
        "where a plain all-reduce takes {}",
        spec.strategy().deterministic_parts(), kibibytes((ranks - 1) * sums * plan.microBatches),
        kibibytes(2 * (ranks - 1) * sums / ranks)));
  }
  const cluster::Strategy* const kind = cluster::findStrategy(plan.strategy);
  if (kind != nullptr && kind->local && spec.strategy().local_steps() == 0)
    preview.remarks.push_back(
        message("strategy.local_steps is chosen: {}, the largest divisor of the batch of {} up "
                "to {} that leaves each rank a sample "
                "of each part",
                plan.microBatches, training.batch(), specs::kLocalSteps));
  if (const double scale = specs::rateScale(training); scale != 1)
    preview.remarks.push_back(message(
        "the learning rate is {:.6g}: {:.6g} for a batch of {}, in proportion to this one of {}",
        training.optimizer().learning_rate() * scale, training.optimizer().learning_rate(),
        training.optimizer().for_batch(), training.batch()));
}

void remarkOnSamples(Preview& preview, const spec::v1::RunSpec& spec, bool chosen) {
  const auto vocabulary = spec.model().input().vocabulary();
  if (spec.data().format() == "text" && vocabulary > 256)
    preview.remarks.push_back(
        message("every byte of the text is a token, so that {} of the {} tokens of "
                "model.input.vocabulary never occur",
                vocabulary - 256, vocabulary));
  std::set<std::int64_t> shares;  // of the ranks that compute
  for (const RankPreview& rank : preview.ranks)
    if (rank.samples > 0) shares.insert(rank.samples);
  if (shares.size() > 1 && !chosen)
    preview.remarks.push_back(
        message("the batch of {} does not divide by {} ranks: shares are {} and {} samples",
                preview.plan.globalBatch, preview.plan.mesh.axisSize("data"), *shares.rbegin(),
                *shares.begin()));
}

// Whether the state is on another host too when a host loses its disk with its part of each
// checkpoint.
bool survivesLossOfDisk(const Preview& preview) {
  using Key = std::tuple<std::int64_t, int, std::int64_t, std::int64_t>;  // a piece of a member
  std::map<Key, std::set<std::string>> hostsOf;
  for (int rank = 0; rank < preview.plan.mesh.size(); ++rank)
    for (const plan::HeldPiece& held : plan::piecesHeldBy(preview.plan, rank))
      hostsOf[{held.number, held.piece.part, held.piece.begin, held.piece.end}].insert(
          preview.cluster.devices[static_cast<std::size_t>(rank)].host);
  return std::ranges::all_of(hostsOf, [](const auto& piece) { return piece.second.size() > 1; });
}

std::size_t hostCount(const Preview& preview) {
  std::set<std::string> hosts;
  for (const cluster::Device& device : preview.cluster.devices) hosts.insert(device.host);
  return hosts.size();
}

// Where checkpoints are kept, as the agents do it: see agent/supervisor/checkpoint_copies.cc.
void remarkOnCopies(Preview& preview, const spec::v1::CheckpointSpec& checkpoint) {
  const bool isOwnDisk = checkpoint.path().empty(),
             isMemory = checkpoint.path().starts_with("/dev/shm/");
  const bool isCopied = checkpoint.has_copies() ? checkpoint.copies() > 0 : isOwnDisk;
  if (isCopied || !(isOwnDisk || isMemory) || hostCount(preview) < 2 || survivesLossOfDisk(preview))
    return;
  preview.remarks.push_back(
      "parts of a checkpoint are on one host alone, so that a run that loses this host loses its "
      "checkpoints too: set training.checkpoint.copies to 1, or training.checkpoint.path to "
      "storage that all nodes share");
}

// Checkpoints at the ends of epochs are not counted: how long an epoch is, its data tell.
void remarkOnLostSteps(Preview& preview, const spec::v1::TrainingSpec& training) {
  constexpr double kMostMinutes = 15;
  if (preview.stepSeconds <= 0) return;
  const auto& checkpoint = training.checkpoint();
  double steps = std::ceil(checkpoint.every_minutes() * 60 / preview.stepSeconds);
  for (const std::int64_t limit : {checkpoint.every_steps(), training.max_steps()})
    if (limit > 0) steps = std::min(steps, static_cast<double>(limit));
  const double minutes = steps * preview.stepSeconds / 60;
  if (minutes < kMostMinutes || steps < 2) return;
  preview.remarks.push_back(message(
      "within an epoch, a failure costs up to {:.0f} steps, {:.0f} min at the predicted step time: "
      "set training.checkpoint.every_minutes to less",
      steps, minutes));
}

void remarkOnCheckpoints(Preview& preview, const spec::v1::RunSpec& spec) {
  const auto& checkpoint = spec.training().checkpoint();
  if (!checkpoint.disabled()) {
    remarkOnLostSteps(preview, spec.training());
    remarkOnCopies(preview, checkpoint);
  } else if (spec.recovery().policy() != "none") {
    preview.remarks.push_back(
        message("no checkpoints are written, so that after a failure recovery.policy {} trains "
                "all steps again: set training.checkpoint.disabled to false",
                spec.recovery().policy()));
  }
}

void remarkOnWaitLimit(Preview& preview) {
  constexpr double kLateSeconds = 300;
  if (preview.plan.mesh.size() < 2) return;
  const double seconds = static_cast<double>(collectiveLimit(preview)) * 1e-9;
  if (preview.stepSeconds > seconds / 2)
    preview.remarks.push_back(message(
        "a step is predicted to take {:.0f} s, and a collective fails after {:.0f} s without "
        "progress: use fewer ranks per host",
        preview.stepSeconds, seconds));
  else if (seconds >= kLateSeconds)
    preview.remarks.push_back(
        message("a collective fails after {:.0f} min without progress, {:.0f} times the predicted "
                "step or evaluation: so long do ranks wait for one that is frozen",
                seconds / 60, plan::kTimesPredicted));
}

}  // namespace

void addSpares(Preview& preview, const spec::v1::RunSpec& spec,
               const spec::v1::ClusterSpec& cluster) {
  for (const auto* node : specs::spareNodes(cluster)) {
    preview.spares.push_back(node->name());
    preview.remarks.push_back(message("node {} is a spare: it replaces a lost node", node->name()));
  }
  const spec::v1::RecoverySpec recovery = specs::recoveryOf(spec);
  const bool restarts = recovery.policy() == "restart" &&
                        (recovery.on().empty() ||
                         std::ranges::find(recovery.on(), "node_lost") != recovery.on().end());
  const std::size_t hosts = hostCount(preview);
  if (restarts && preview.spares.empty() && hosts > 1)
    preview.remarks.push_back(message(
        "the run ends if one of its {} hosts is lost and does not come back: set recovery.policy "
        "to shrink, so that it continues on the others, or recovery.spares to 1, so that another "
        "node replaces it",
        hosts));
}

void addRemarks(Preview& preview, const LaunchRequest& request, const planner::PlanRequest& plan) {
  remarkOnCores(preview);
  remarkOnStages(preview);
  remarkOnCommunication(preview);
  remarkOnPrices(preview);
  remarkOnSamples(preview, *request.spec, !plan.shares.empty());
  remarkOnRoles(preview, *request.cluster);
  remarkOnChoices(preview, *request.spec, plan);
  remarkOnCheckpoints(preview, *request.spec);
  remarkOnWaitLimit(preview);
}

}  // namespace lockstep::app
