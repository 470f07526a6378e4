#include "app/advice/estimate.h"

#include <google/protobuf/util/message_differencer.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "engine/cluster/assumed.h"
#include "engine/cluster/strategies.h"
#include "engine/planner/pricing.h"
#include "engine/specs/links.h"
#include "engine/specs/specs.h"
#include "lockstep/spec/v1/spec.pb.h"

namespace lockstep::app {
namespace {

constexpr double kAnchors = 8;  // probes have 1, 8, 64, … samples
constexpr int kFewLayers = 2;   // of equal ones in a row

// The probes' numbers of samples on both sides of this one.
std::pair<std::int64_t, std::int64_t> anchorsOf(double samples) {
  std::int64_t low = 1;
  while (static_cast<double>(low) * kAnchors <= samples) low *= static_cast<std::int64_t>(kAnchors);
  return {low, low * static_cast<std::int64_t>(kAnchors)};
}

// The first ranks of a cluster's workers.
spec::v1::ClusterSpec firstRanks(const spec::v1::ClusterSpec& cluster, int ranks) {
  spec::v1::ClusterSpec out = cluster;
  out.clear_nodes();
  for (const spec::v1::NodeSpec& node : cluster.nodes()) {
    const bool works = node.roles().empty() ||
                       std::any_of(node.roles().begin(), node.roles().end(), [](const auto& role) {
                         return role == "worker" || role == "chief";
                       });
    if (!works || ranks == 0) continue;
    spec::v1::NodeSpec& kept = *out.add_nodes();
    kept = node;
    kept.clear_roles();
    kept.clear_devices();
    std::vector<spec::v1::DeviceSpec> devices(node.devices().begin(), node.devices().end());
    if (devices.empty()) devices.emplace_back();
    for (spec::v1::DeviceSpec device : devices) {
      const int count = std::min(ranks, std::max(1, device.count()));
      if (count == 0) break;
      if (device.gpus() > count) device.set_gpus(count);
      device.set_count(count);
      ranks -= count;
      *kept.add_devices() = device;
    }
  }
  return out;
}

bool areEqual(spec::v1::LayerSpec a, spec::v1::LayerSpec b) {
  a.clear_name();
  b.clear_name();
  return google::protobuf::util::MessageDifferencer::Equals(a, b);
}

struct Repeated {  // the longest row of equal layers
  int first = 0, count = 0;
};
Repeated repeatedLayers(const spec::v1::ModelSpec& model) {
  Repeated longest;
  for (int first = 0; first < model.layers_size();) {
    int end = first + 1;
    while (end < model.layers_size() && areEqual(model.layers(first), model.layers(end))) ++end;
    if (end - first > longest.count) longest = {first, end - first};
    first = end;
  }
  return longest;
}

cluster::Link withinHost(const cluster::Cluster& cluster) {
  const bool several =
      std::any_of(cluster.devices.begin(), cluster.devices.end(),
                  [&](const auto& device) { return device.host != cluster.devices[0].host; });
  return several ? cluster::assumedLink(cluster.link.kind, false) : cluster.link;
}

}  // namespace

Estimator::Estimator(const LaunchRequest& request, const std::vector<HostFacts>& hosts,
                     const cluster::Cluster& cluster, const SearchSpace& space)
    : request_(request),
      hosts_(hosts),
      cluster_(cluster),
      between_(cluster.link),
      within_(withinHost(cluster)),
      repeated_(repeatedLayers(request.spec->model()).count),
      space_(space) {
  perHost_ = static_cast<int>(
      std::count_if(cluster.devices.begin(), cluster.devices.end(),
                    [&](const auto& device) { return device.host == cluster.devices[0].host; }));
}

double Estimator::samplesOf(const Choice& choice) const {
  return static_cast<double>(space_.batch) / space_.dataRanks(choice) / choice.microBatches;
}

Estimator::Probe Estimator::probeFor(const Choice& choice, std::int64_t samples) const {
  return {choice.tensor, samples, choice.microBatches > 1, choice.recompute, choice.precision};
}

std::vector<Estimator::Probe> Estimator::probesFor(const std::vector<Choice>& choices) const {
  std::set<Probe> out;
  for (const Choice& choice : choices) {
    if (choice.hasServers()) continue;
    const auto [low, high] = anchorsOf(samplesOf(choice));
    out.insert({probeFor(choice, low), probeFor(choice, high)});
  }
  return {out.begin(), out.end()};
}

void Estimator::plan(const Probe& probe) {
  std::optional<Costs> costs;
  // Few layers stand for all of a row, unless some of them are frozen.
  if (repeated_ > kFewLayers + 1 && request_.spec->training().freeze().empty()) {
    costs = planned(probe, kFewLayers);
    const std::optional<Costs> more = planned(probe, kFewLayers + 1);
    if (costs && more) {
      costs->repeated = more->computing - costs->computing;
      for (double Costs::*part : Costs::kAll)
        (*costs).*part += (repeated_ - kFewLayers) * ((*more).*part - (*costs).*part);
    } else {
      costs.reset();  // other layers refer to those that were left out
    }
  }
  if (!costs) costs = planned(probe, repeated_);
  if (!costs) return;
  const std::lock_guard lock(mutex_);
  costs_.emplace(probe, *costs);
}

std::optional<Estimator::Costs> Estimator::planned(const Probe& probe, int keptLayers) const {
  auto spec = std::make_shared<spec::v1::RunSpec>(*request_.spec);
  auto& strategy = *spec->mutable_strategy();
  strategy.Clear();
  strategy.set_kind(probe.tensor > 1 ? "tensor-parallel" : "multi-worker-mirrored");
  strategy.set_tensor(probe.tensor);
  strategy.set_recompute(probe.recompute);
  const int parts = probe.accumulates ? 2 : 1;
  strategy.set_micro_batches(parts);
  spec->mutable_recovery()->clear_spares();
  const Repeated repeated = repeatedLayers(spec->model());
  spec->mutable_model()->mutable_layers()->DeleteSubrange(repeated.first + keptLayers,
                                                          repeated.count - keptLayers);
  spec->mutable_training()->set_batch(parts * probe.samples);
  spec->mutable_training()->set_evaluate_batch(probe.samples);
  spec->mutable_training()->set_precision(probe.precision);
  if (probe.precision != request_.spec->training().precision())
    spec->mutable_training()->clear_loss_scale();
  for (spec::v1::LayerSpec& layer : *spec->mutable_model()->mutable_layers())
    if (layer.has_batch_norm()) layer.mutable_batch_norm()->set_groups(parts);
  if (const Status filled = specs::checkAndFill(*spec); !filled.ok()) return std::nullopt;
  LaunchRequest request = request_;
  request.cluster =
      std::make_shared<spec::v1::ClusterSpec>(firstRanks(*request_.cluster, probe.tensor));
  request.spec = std::move(spec);
  const auto preview = makeBriefPreview(request, hosts_);
  if (!preview.ok()) return std::nullopt;
  const RankPreview& rank = preview->ranks.front();
  Costs costs;
  costs.computing = (rank.forward + rank.backward + rank.waiting + rank.transfer) / parts;
  costs.optimizer = rank.optimizer;
  costs.data = rank.data;
  costs.parameters = static_cast<double>(rank.parameterBytes);
  costs.gradients = static_cast<double>(rank.gradientBytes);
  costs.optimizerState = static_cast<double>(rank.optimizerBytes);
  costs.activations = static_cast<double>(rank.activationBytes);
  return costs;
}

// Linear between two probes.
std::optional<Estimator::Costs> Estimator::costsOf(const Choice& choice) const {
  const double samples = samplesOf(choice);
  const auto [low, high] = anchorsOf(samples);
  const auto a = costs_.find(probeFor(choice, low));
  const auto b = costs_.find(probeFor(choice, high));
  if (a == costs_.end() || b == costs_.end()) return std::nullopt;
  const double share = (samples - static_cast<double>(low)) / static_cast<double>(high - low);
  Costs out = a->second;
  for (double Costs::*part : {&Costs::computing, &Costs::repeated, &Costs::activations})
    out.*part += share * (b->second.*part - a->second.*part);
  return out;
}

// Seconds of a micro-batch on the stage that takes longest, where what does not repeat is on one.
double Estimator::fullestStage(const Choice& choice, const Costs& costs) const {
  const double even = costs.computing / choice.stages;
  if (choice.stages == 1 || costs.repeated <= 0) return even;
  const double rest = costs.computing - repeated_ * costs.repeated;
  double least = costs.computing;
  for (int kept = 0; kept <= repeated_; ++kept) {  // on the stage with the rest
    const double others = std::ceil(static_cast<double>(repeated_ - kept) / (choice.stages - 1));
    least = std::min(least, std::max(rest + kept * costs.repeated, others * costs.repeated));
  }
  return std::max(even, least);
}

// The link between ranks that have the same parameters.
cluster::Link Estimator::exchangeLink(const Choice& choice) const {
  const int dataRanks = space_.dataRanks(choice);
  if (cluster_.links.empty()) return dataRanks * choice.tensor > perHost_ ? between_ : within_;
  const auto [known, isNew] = exchangeLinks_.try_emplace({choice.tensor, choice.stages});
  if (isNew) {
    cluster::Cluster meshed = cluster_;
    meshed.mesh = cluster::Mesh({{std::string(cluster::kStageAxis), choice.stages},
                                 {std::string(cluster::kDataAxis), dataRanks},
                                 {std::string(cluster::kModelAxis), choice.tensor}});
    specs::resolveLinks(*request_.cluster, meshed);
    known->second = meshed.links[std::string(cluster::kDataAxis)];
  }
  return known->second;
}

// Seconds by which the exchange of gradients, and of what is sharded, prolongs a step.
double Estimator::exchangeSeconds(const Choice& choice, double parameterBytes,
                                  double computing) const {
  const int dataRanks = space_.dataRanks(choice);
  if (dataRanks == 1) return 0;
  const cluster::Strategy& kind = *cluster::findStrategy(choice.kind);
  const bool spans = dataRanks * choice.tensor > perHost_;
  const cluster::Link link = exchangeLink(choice);
  const double allReduce = planner::collectiveSeconds(ir::Op::kAllReduce, dataRanks,
                                                      std::llround(parameterBytes), {}, link);
  const int parts = choice.microBatches;
  const double times = kind.splitParameters  ? 1.5 * parts
                       : kind.splitGradients ? 0.5 * (1 + parts)
                                             : 1;
  const double total = times * allReduce;
  // Between hosts it is waiting, and GPUs have a queue for it.
  const bool isHidden = spans || link.kind == "nccl";
  return isHidden ? std::max(0.0, total - computing) : total;
}

std::optional<Estimate> Estimator::of(const Choice& choice) const {
  if (choice.hasServers() || samplesOf(choice) < 1) return std::nullopt;
  const std::optional<Costs> costs = costsOf(choice);
  if (!costs) return std::nullopt;
  const cluster::Strategy& kind = *cluster::findStrategy(choice.kind);
  const double stages = choice.stages, parts = choice.microBatches;
  const double dataRanks = space_.dataRanks(choice);
  const double bubble = choice.schedule == "zb-h1" ? (stages - 1) / 3 : stages - 1;
  const double computing =
      parts * fullestStage(choice, *costs) + bubble * costs->computing / stages;
  const double parameters = costs->parameters / stages;
  Estimate out;
  out.seconds = costs->data + computing + exchangeSeconds(choice, parameters, computing) +
                costs->optimizer / stages / (kind.splitOptimizer ? dataRanks : 1);
  const double held = choice.schedule == "gpipe" ? parts : std::min(parts, stages);
  out.memoryBytes =
      std::llround(parameters / (kind.splitParameters ? dataRanks : 1) +
                   costs->optimizerState / stages / (kind.splitOptimizer ? dataRanks : 1) +
                   costs->gradients / stages / (kind.splitGradients ? dataRanks : 1) +
                   held * costs->activations / stages);
  return out;
}

}  // namespace lockstep::app
