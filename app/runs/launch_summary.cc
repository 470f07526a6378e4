#include "app/runs/launch_summary.h"

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "app/runs/quantity_text.h"
#include "app/runs/run_progress.h"
#include "engine/base/shell_text.h"
#include "engine/data/dataset.h"
#include "engine/plan/pieces.h"
#include "engine/plan/wait_limit.h"
#include "engine/specs/placement.h"
#include "engine/specs/run_limits.h"
#include "engine/specs/specs.h"
#include "engine/specs/workload.h"
#include "lockstep/spec/v1/spec.pb.h"

namespace lockstep::app {
namespace {

using Rows = std::vector<SummaryRow>;
using spec::v1::RunSpec;

double secondsOf(Nanoseconds time) { return static_cast<double>(time) * 1e-9; }
// A name, which no language changes.
Message name(std::string text) { return {std::move(text), {}, {}}; }
template <typename List>
Message names(const List& list) {
  return name(fmt::format("{}", fmt::join(list, ", ")));
}

std::set<std::string> nodesOf(const Preview& preview) {
  std::set<std::string> out(preview.spares.begin(), preview.spares.end());
  for (const RankPreview& rank : preview.ranks) out.insert(rank.node);
  if (preview.evaluator) out.insert(preview.evaluator->node);
  return out;
}

void addPlacement(const LaunchRequest& request, const Preview& preview, Rows& out) {
  std::set<std::string> nodes;
  for (const RankPreview& rank : preview.ranks) nodes.insert(rank.node);
  out.push_back(
      {message("Ranks"), nodes.size() == 1
                             ? message("{} on node {}", preview.ranks.size(), *nodes.begin())
                             : message("{} on {} nodes", preview.ranks.size(), nodes.size())});
  if (!preview.spares.empty()) out.push_back({message("Spare nodes"), names(preview.spares)});
  if (!request.resumedRun.empty())
    out.push_back({message("Resumed from"), message("run {}", request.resumedRun)});
}

Message epochsText(std::int64_t epochs) {
  return epochs == 1 ? message("1 epoch") : message("{} epochs", epochs);
}

Message lengthText(const spec::v1::TrainingSpec& training, std::int64_t batch,
                   std::int64_t samples) {
  const std::int64_t epochs = training.epochs(), most = training.max_steps();
  if (samples <= 0 || batch <= 0) {
    if (epochs == 0) return message("{} steps", most);
    return most > 0 ? message("{}, but at most {} steps", epochsText(epochs), most)
                    : message("{}; the data tell how many steps", epochsText(epochs));
  }
  const std::int64_t each = data::stepsPerEpoch(samples, batch);
  std::int64_t all = 0;
  if (__builtin_mul_overflow(epochs, each, &all)) all = std::numeric_limits<std::int64_t>::max();
  if (epochs == 0 || (most > 0 && most < all))
    return message("{} steps; an epoch has {}", most, each);
  return message("{} of {} steps: {} steps", epochsText(epochs), each, all);
}

void addBatch(const Preview& preview, Rows& out) {
  out.push_back({message("Global batch"), message("{} samples", preview.plan.globalBatch)});
  std::set<std::int64_t> shares;  // of ranks that compute
  for (const RankPreview& rank : preview.ranks)
    if (!rank.isServer()) shares.insert(rank.samples);
  if (shares.size() == 1)
    out.push_back({message("Batch per rank"), message("{} samples", *shares.begin())});
  else if (!shares.empty())
    out.push_back({message("Batch per rank"),
                   message("{} to {} samples", *shares.begin(), *shares.rbegin())});
  if (preview.plan.microBatches > 1)
    out.push_back({message("Micro-batches"), name(fmt::format("{}", preview.plan.microBatches))});
}

void addRate(const spec::v1::TrainingSpec& training, Rows& out) {
  const auto& optimizer = training.optimizer();
  const auto& schedule = training.schedule();
  const double scale = specs::rateScale(training);
  const double rate = optimizer.learning_rate() * scale;
  out.push_back({message("Optimizer"), name(optimizer.kind())});
  out.push_back({message("Learning rate"),
                 scale == 1 ? name(fmt::format("{:.6g}", rate))
                            : message("{:.6g}: {:.6g} for a batch of {}, in proportion", rate,
                                      optimizer.learning_rate(), optimizer.for_batch())});
  out.push_back({message("Learning rate schedule"),
                 schedule.kind() == "constant" ? message("constant")
                 : schedule.kind() == "step"
                     ? message("times {:.6g} every {} steps", schedule.factor(), schedule.every())
                     : message("{} to {:.6g} at step {}", name(schedule.kind()),
                               schedule.final_rate() * scale, schedule.steps())});
  if (schedule.warmup_steps() > 0)
    out.push_back({message("Warm-up"), message("{} steps", schedule.warmup_steps())});
}

void addTraining(const RunSpec& spec, const Preview& preview, std::int64_t samples, Rows& out) {
  const auto& training = spec.training();
  out.push_back({message("Strategy"), name(preview.plan.strategy)});
  out.push_back({message("Length"), lengthText(training, preview.plan.globalBatch, samples)});
  addBatch(preview, out);
  addRate(training, out);
  out.push_back({message("Precision"), name(training.precision())});
  out.push_back(
      {message("Evaluation"), !spec.data().has_evaluate() ? message("none")
                              : preview.evaluator
                                  ? message("after each epoch, by node {}", preview.evaluator->node)
                                  : message("after each epoch, by all ranks")});
}

// Whether the nodes will be those of a job, in whose folder checkpoints are kept: onAllocated().
bool isInJobFolder(const LaunchRequest& request) {
  const auto& placement = request.cluster->placement();
  return specs::awaitsAllocation(*request.cluster) &&
         request.spec->training().checkpoint().path().empty() &&
         (!specs::isKubernetes(placement) || !placement.volume_claim().empty());
}

// On other nodes, as the agents keep them: see agent/supervisor/checkpoint_copies.cc.
std::size_t copiesOf(const spec::v1::CheckpointSpec& checkpoint, const Preview& preview,
                     bool isShared) {
  std::map<std::string, std::set<std::string>> byHost;
  for (const cluster::Device& device : preview.cluster.devices)
    byHost[device.host].insert(device.node);
  const bool isOneHost = byHost.size() < 2;
  const std::size_t own = isOneHost || isShared ? 0 : 1;
  const std::size_t wanted =
      checkpoint.has_copies() ? static_cast<std::size_t>(std::max(0, checkpoint.copies())) : own;
  // Of several hosts, the nodes of a host hold no copies for each other.
  std::size_t nodes = 0, most = 1;
  for (const auto& [host, ofHost] : byHost) {
    nodes += ofHost.size();
    if (!isOneHost) most = std::max(most, ofHost.size());
  }
  return nodes == 0 ? 0 : std::min(wanted, nodes - most);
}

// Of all ranks together.
std::int64_t checkpointBytes(const Preview& preview, bool isShared) {
  const std::vector<int> folders = checkpointFolders(preview.cluster, isShared);
  std::int64_t bytes = 0;
  for (int rank = 0; rank < preview.plan.mesh.size(); ++rank)
    bytes += plan::bytesWrittenBy(preview.plan, rank, folders);
  return bytes;
}

void addCheckpoints(const LaunchRequest& request, const Preview& preview, Rows& out) {
  const spec::v1::CheckpointSpec& checkpoint = request.spec->training().checkpoint();
  if (checkpoint.disabled()) {
    out.push_back({message("Checkpoints"), message("none")});
    return;
  }
  out.push_back(
      {message("Checkpoints"),
       checkpoint.every_steps() > 0
           ? message("every {} steps, every {:g} min, and at the end of each epoch",
                     checkpoint.every_steps(), checkpoint.every_minutes())
           : message("every {:g} min, and at the end of each epoch", checkpoint.every_minutes())});
  out.push_back({message("Checkpoints kept"), name(fmt::format("{}", checkpoint.keep()))});
  const bool isOfJob = isInJobFolder(request), isShared = isOfJob || !checkpoint.path().empty();
  out.push_back({message("Checkpoint folder"),
                 isOfJob ? message("the job's folder, which its nodes share")
                 : checkpoint.path().empty()
                     ? message("the run's folder on each node")
                     : message("{}, in a folder of the run's own", checkpoint.path())});
  const std::size_t copies = copiesOf(checkpoint, preview, isShared);
  out.push_back({message("Checkpoint copies"), copies == 0 ? message("none")
                                               : copies == 1
                                                   ? message("on 1 other node")
                                                   : message("on {} other nodes", copies)});
  // Of more ranks it would take long to count.
  if (preview.plan.mesh.size() <= kMostLinkedRanks)
    out.push_back({message("Checkpoint size"),
                   name(mebibytes(checkpointBytes(
                       preview, isOfJob || specs::sharesCheckpoints(*request.spec))))});
}

// How long nodes and ranks are waited for; each limit with what it is made of.
void addLimits(const RunSpec& spec, const Preview& preview, Rows& out) {
  if (nodesOf(preview).size() > 1) {
    const Nanoseconds heartbeat = specs::heartbeatOf(spec);
    out.push_back({message("Heartbeat"), message("every {:g} s", secondsOf(heartbeat))});
    out.push_back({message("Node silent after"),
                   message("{:g} s: {} heartbeats", secondsOf(specs::kSilentHeartbeats * heartbeat),
                           specs::kSilentHeartbeats)});
    out.push_back({message("Node lost after"),
                   message("{:g} s: {} heartbeats, but at least {:g} s",
                           secondsOf(specs::kLostPeer.of(heartbeat)), specs::kLostPeer.times,
                           secondsOf(specs::kLostPeer.least))});
  }
  if (preview.ofProgram()) {
    const int seconds = specs::hangSecondsOf(spec.workload());
    out.push_back(
        {message("Hang after"),
         seconds == 0 ? message("never") : message("{} s without output of any rank", seconds)});
  } else if (preview.ranks.size() > 1) {
    const Nanoseconds least = preview.comm == "nccl" ? plan::kDeviceLimit : plan::kCollectiveLimit;
    out.push_back(
        {message("Collective fails after"),
         message("{:.0f} s without progress: {:g} times the predicted step, but at least "
                 "{:g} s",
                 secondsOf(collectiveLimit(preview)), plan::kTimesPredicted, secondsOf(least))});
    if (preview.plan.isAsynchronous()) return;  // its ranks do not wait for each other
    out.push_back(
        {message("Hang reported after"),
         message("{:.1f} s: {} times the usual step, here the predicted one, but at "
                 "least {:g} s",
                 std::max(specs::kHang.times * preview.stepSeconds, secondsOf(specs::kHang.least)),
                 specs::kHang.times, secondsOf(specs::kHang.least))});
  }
}

void addRecovery(const RunSpec& spec, Rows& out) {
  const spec::v1::RecoverySpec recovery = specs::recoveryOf(spec);
  if (recovery.policy() == "none") {
    out.push_back({message("After a failure"), message("the run ends")});
    return;
  }
  const int most = recovery.max_restarts();
  const Message from =
      specs::takesCheckpoints(spec) ? message("the newest checkpoint") : message("the first step");
  out.push_back(
      {message("After a failure"),
       spec.has_workload() ? message("the program starts again, at most {} times", most)
       : recovery.policy() == "shrink"
           ? message("restarts from {}, also without lost nodes, at most {} times", from, most)
           : message("restarts from {}, at most {} times", from, most)});
  out.push_back({message("Failures that restart it"),
                 recovery.on().empty() ? message("all") : names(recovery.on())});
}

void addSinks(const spec::v1::SinksSpec& sinks, Rows& out) {
  const std::pair<const char*, const std::string&> all[] = {{"TensorBoard", sinks.tensorboard()},
                                                            {"CSV", sinks.csv()},
                                                            {"JSON", sinks.json()},
                                                            {"OpenTelemetry", sinks.otlp()}};
  for (const auto& [kind, place] : all)
    if (!place.empty()) out.push_back({message("Curves as {}", kind), name(place)});
}

}  // namespace

std::int64_t samplesToLaunch(const RunSpec& spec) {
  constexpr std::uintmax_t kMostRead = 16 << 20;
  return spec.has_workload() ? 0 : trainingSamples(spec, kMostRead);
}

std::vector<SummaryRow> launchSummary(const LaunchRequest& request, const Preview& preview,
                                      std::int64_t samples) {
  const RunSpec& spec = *request.spec;
  Rows out;
  if (preview.ofProgram()) {
    const auto& command = spec.workload().command();
    out.push_back({message("Program"), name(shellLine({command.begin(), command.end()}))});
  }
  addPlacement(request, preview, out);
  if (!preview.ofProgram()) {
    addTraining(spec, preview, samples, out);
    addCheckpoints(request, preview, out);
  }
  addLimits(spec, preview, out);
  addRecovery(spec, out);
  addSinks(spec.sinks(), out);
  return out;
}

std::string summaryText(const std::vector<SummaryRow>& rows) {
  std::size_t width = 0;
  for (const SummaryRow& row : rows) width = std::max(width, row.label.text().size());
  std::string out;
  for (const SummaryRow& row : rows)
    out += fmt::format("{:<{}}  {}\n", row.label.text(), width, row.value.text());
  return out;
}

std::string summaryJson(const std::vector<SummaryRow>& rows) {
  nlohmann::json out = nlohmann::json::array();
  for (const SummaryRow& row : rows)
    out.push_back({{"label", row.label.text()}, {"value", row.value.text()}});
  return out.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace lockstep::app
