#include "ui/dialogs/launch_preview.h"

#include <algorithm>

#include "app/advice/auto_strategy.h"
#include "app/specs/spec_text.h"

namespace lockstep::ui {

LaunchPreview makeLaunchPreview(const LaunchInputs& in) {
  auto spec = app::completeRunSpec(in.specYaml, in.specFile, in.sets);
  if (!spec) return {std::nullopt, spec.error()};
  app::ClusterSpecFile cluster;
  if (in.localNodes > 0) {
    cluster = app::localCluster(in.localNodes, in.localFolder, in.comm);
  } else {
    auto read = app::completeClusterSpec(in.clusterYaml, in.clusterFile);
    if (!read) return {std::nullopt, read.error()};
    auto changed = app::withRanks(std::move(*read), in.ranks);
    if (!changed) return {std::nullopt, changed.error()};
    cluster = std::move(*changed);
  }
  app::LaunchRequest request;
  request.spec = spec->spec;
  request.cluster = cluster.spec;
  request.specYaml = in.specYaml;
  request.clusterYaml = cluster.yaml;
  request.comm = in.comm;
  request.measure = in.measure;
  request.resumeFrom = in.resumeFrom;
  request.resumedRun = in.resumedRun;
  std::vector<app::HostFacts> hosts = in.hosts;
  for (app::HostFacts& here : app::hostsHere(*cluster.spec)) {
    const bool known = std::any_of(hosts.begin(), hosts.end(),
                                   [&](const auto& one) { return one.node == here.node; });
    if (!known) hosts.push_back(std::move(here));
  }
  app::AdviceOptions search;
  search.threads = static_cast<std::size_t>(app::usableCores());
  search.stop = in.stop;
  auto chosen = app::withStrategyChosen(std::move(request), *spec, hosts, std::move(search));
  if (!chosen) return {std::nullopt, chosen.error()};
  if (in.stop.stop_requested())
    return {std::nullopt, makeError(Code::kCancelled, "the search was cancelled")};
  auto preview = app::makePreview(*chosen, hosts);
  return {*std::move(chosen), std::move(preview)};
}

std::vector<Candidate> compareStrategies(
    const std::vector<std::pair<std::string, LaunchInputs>>& strategies) {
  std::vector<Candidate> out;
  for (const auto& [name, inputs] : strategies) {
    const LaunchPreview made = makeLaunchPreview(inputs);
    Candidate one;
    one.strategy = name;
    if (made.preview) {
      one.stepSeconds = made.preview->stepSeconds;
      one.bubbleShare = app::bubbleShare(*made.preview);
      one.memoryBytes = app::peakMemory(*made.preview);
      one.wireBytes = app::wireBytes(made.preview->plan);
      const app::Energy energy = app::predictedEnergy(*made.preview);
      if (energy.seconds > 0 && energy.isComplete()) one.joules = energy.joules();
    } else {
      one.refusal = made.preview.error();
    }
    out.push_back(std::move(one));
  }
  return out;
}

}  // namespace lockstep::ui
