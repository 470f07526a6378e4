#include "app/whatif/measured_speeds.h"

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "app/runs/preview.h"
#include "engine/cluster/assumed.h"
#include "engine/planner/planner.h"
#include "engine/specs/links.h"
#include "lockstep/spec/v1/spec.pb.h"

namespace lockstep::app {
namespace {

constexpr double kAlike = 1.05;  // what differs by less is as fast

// Seconds of a step.
struct Spent {
  std::map<std::string, double> computing;  // of a node's ranks
  double exchanging = 0;                    // of all ranks
};

double meanOf(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) /
         static_cast<double>(std::max<std::size_t>(values.size(), 1));
}

Spent measuredOf(const MeasuredRun& run) {
  Spent out;
  const double scale = run.scalesExchanges ? meanOf(run.exchangeScale) : 1;
  for (std::size_t r = 0; r < run.ranks.size(); ++r) {
    double& computing = out.computing[run.nodes[r]];
    for (std::size_t p = 1; p < kOwnParts; ++p) computing += meanOf(run.ranks[r].parts[p]);
    out.exchanging += run.exchangeSeconds(run.ranks[r]) * scale;
  }
  return out;
}

Spent simulatedOf(const MeasuredRun& run, const Preview& preview) {
  plan::Plan plan = run.plan;
  planner::predict(plan, preview.cluster, {});
  planner::SimulateOptions options;
  options.steps = 2;
  options.events = false;
  const planner::Simulation simulation =
      planner::simulate(plan, preview.cluster, preview.cost, options);
  Spent out;
  for (std::size_t r = 0; r < run.ranks.size(); ++r) {
    const planner::Simulation::Breakdown& spent = simulation.ranks[r];
    out.computing[run.nodes[r]] += spent.forward + spent.backward + spent.optimizer;
    out.exchanging += spent.transfer + spent.hidden;
  }
  return out;
}

void slow(spec::v1::NodeSpec& node, const cluster::Cluster& cluster, const std::string& precision,
          double times) {
  if (node.devices().empty()) node.add_devices();
  for (spec::v1::DeviceSpec& spec : *node.mutable_devices()) {
    const auto device = std::find_if(
        cluster.devices.begin(), cluster.devices.end(), [&](const cluster::Device& one) {
          return one.node == node.name() && (spec.kind().empty() || one.kind == spec.kind());
        });
    if (device == cluster.devices.end()) continue;
    const cluster::DeviceRates rates = cluster::assumedRates(*device, precision);
    const double flops = rates.flopsPerSecond / cluster::reachedOfProducts(precision);
    spec.set_tflops(flops / times * 1e-12);
    spec.set_memory_gb_per_s(rates.bytesPerSecond / cluster::kReachedOfMemory / times * 1e-9);
  }
}

// Links between nodes that the spec names, and all others. NCCL alone is as fast as a spec says:
// elsewhere the processor copies the data, and an entry can only slow that.
void slowLinks(spec::v1::ClusterSpec& spec, const cluster::Cluster& cluster, double times) {
  const bool isNccl = cluster.link.kind == "nccl";
  std::map<std::string, int> ranks;  // by node
  std::set<std::string> hosts;
  for (const cluster::Device& device : cluster.devices) {
    ++ranks[device.node];
    hosts.insert(device.host);
  }
  const cluster::Link assumed = cluster::assumedLink(cluster.link.kind, hosts.size() > 1);
  spec::v1::LinkSpec& others = *spec.add_links();
  others.set_from("*");
  others.set_to("*");
  if (isNccl)  // an adapter each is what is assumed
    for (const auto& [node, count] : ranks) others.set_rails(std::max(others.rails(), count));
  for (spec::v1::LinkSpec& link : *spec.mutable_links()) {
    if (!link.inside().empty()) continue;
    const double rails = std::max(1, link.rails()), stated = specs::bandwidthOf(link);
    double bandwidth = stated > 0 ? stated : assumed.bytesPerSecond;
    double latency = link.latency_us() > 0 ? link.latency_us() * 1e-6 : assumed.latency;
    if (!isNccl) {
      bandwidth = std::min(bandwidth * rails, assumed.bytesPerSecond);
      latency = std::max(latency, assumed.latency);
      link.clear_rails();
    }
    link.set_bandwidth_mbit(bandwidth * 8e-6 / times);
    link.set_latency_us(latency * 1e6 * times);
  }
}

}  // namespace

Result<Launched> launchAsMeasured(const WhatIfSubject& subject,
                                  const std::vector<HostFacts>& known) {
  if (!subject.launched.ok()) return subject.launched.error();
  Launched out = *subject.launched;
  const MeasuredRun& run = subject.steps;
  if (run.nodes.empty())
    return makeError(Code::kFailedPrecondition,
                     "the nodes of run {} have changed: their speeds are not known", run.run);
  LOCKSTEP_ASSIGN(const Preview preview, makeBriefPreview(out.request, out.hosts));
  if (preview.plan.mesh.size() != run.plan.mesh.size())
    return makeError(Code::kFailedPrecondition, "the cluster of run {} has changed", run.run);
  const Spent measured = measuredOf(run), simulated = simulatedOf(run, preview);
  std::map<std::string, double> times;  // as long as simulated
  double fastest = std::numeric_limits<double>::infinity();
  for (const auto& [node, seconds] : measured.computing)
    if (const double assumed = simulated.computing.at(node); seconds > 0 && assumed > 0)
      fastest = std::min(fastest, times[node] = seconds / assumed);
  auto cluster = std::make_shared<spec::v1::ClusterSpec>(*out.request.cluster);
  for (spec::v1::NodeSpec& node : *cluster->mutable_nodes())
    if (const auto found = times.find(node.name());
        found != times.end() && found->second > kAlike * fastest)
      slow(node, preview.cluster, run.plan.precision, found->second / fastest);
  if (cluster->nodes_size() > 1 && simulated.exchanging > 0 && !times.empty())
    if (const double exchanging = measured.exchanging / simulated.exchanging / fastest;
        exchanging > kAlike)
      slowLinks(*cluster, preview.cluster, exchanging);
  out.request.cluster = std::move(cluster);
  for (HostFacts& host : out.hosts)
    for (const HostFacts& one : known)
      if (one.node == host.node)
        std::tie(host.memoryAvailable, host.gpuMemory) =
            std::tie(one.memoryAvailable, one.gpuMemory);
  return out;
}

}  // namespace lockstep::app
