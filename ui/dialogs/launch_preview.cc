#include "ui/dialogs/launch_preview.h"

#include <algorithm>

#include "app/advice/run_advice.h"
#include "app/runs/launch_summary.h"
#include "app/specs/spec_text.h"
#include "app/whatif/measured_speeds.h"

namespace lockstep::ui {

namespace {

struct LaunchSetup {
  app::RunSpecFile spec;  // as it is written, with the inputs' sets
  app::LaunchRequest request;
  std::vector<app::HostFacts> hosts;
};

Result<LaunchSetup> setupOf(const LaunchInputs& in) {
  LaunchSetup out;
  LOCKSTEP_ASSIGN(out.spec, app::completeRunSpec(in.specYaml, in.specFile, in.sets));
  app::ClusterSpecFile cluster;
  if (in.localNodes > 0) {
    cluster = app::localCluster(in.localNodes, in.localFolder, in.comm);
  } else {
    LOCKSTEP_ASSIGN(cluster, app::completeClusterSpec(in.clusterYaml, in.clusterFile));
    LOCKSTEP_ASSIGN(cluster, app::withRanks(std::move(cluster), in.ranks));
    if (in.requeue) {
      LOCKSTEP_ASSIGN(cluster, app::withRequeue(std::move(cluster), *in.requeue));
    }
  }
  out.request.spec = out.spec.spec;
  out.request.cluster = cluster.spec;
  out.request.specYaml = in.specYaml;
  out.request.clusterYaml = cluster.yaml;
  out.request.comm = in.comm;
  out.request.measure = in.measure;
  out.request.resumeFrom = in.resumeFrom;
  out.request.resumedRun = in.resumedRun;
  out.hosts = in.hosts;
  for (app::HostFacts& here : app::hostsHere(*cluster.spec)) {
    const bool known = std::any_of(out.hosts.begin(), out.hosts.end(),
                                   [&](const auto& one) { return one.node == here.node; });
    if (!known) out.hosts.push_back(std::move(here));
  }
  return out;
}

struct MeasuredLaunch {
  app::WhatIfSubject subject;
  app::Launched launched;
};

// The run that is repeated, as far as it was on the same ranks.
Result<MeasuredLaunch> measuredBy(const LaunchInputs& in,
                                  const std::vector<app::HostFacts>& known) {
  if (!in.ranks.empty())
    return makeError(Code::kFailedPrecondition, "the run had other numbers of ranks on its nodes");
  LOCKSTEP_ASSIGN(const auto history, app::History::open(in.historyFolder));
  LOCKSTEP_ASSIGN(const app::RunRow row, history->row(in.repeatedRun));
  if (!in.comm.empty() && in.comm != row.comm)
    return makeError(Code::kFailedPrecondition, "the run had another kind of communication");
  LOCKSTEP_ASSIGN(app::WhatIfSubject subject, app::subjectOf(*history, row, 0, in.stop));
  LOCKSTEP_ASSIGN(app::Launched launched, app::launchAsMeasured(subject, known));
  return MeasuredLaunch{std::move(subject), std::move(launched)};
}

}  // namespace

LaunchPreview makeLaunchPreview(const LaunchInputs& in) {
  auto setup = setupOf(in);
  if (!setup) return {std::nullopt, setup.error()};
  app::AdviceOptions search;
  search.threads = static_cast<std::size_t>(app::usableCores());
  search.stop = in.stop;
  auto chosen = app::withStrategyChosen(std::move(setup->request), setup->spec, setup->hosts,
                                        std::move(search));
  if (!chosen) return {std::nullopt, chosen.error()};
  if (in.stop.stop_requested())
    return {std::nullopt, makeError(Code::kCancelled, "the search was cancelled")};
  auto preview = app::makePreview(*chosen, setup->hosts);
  return {*std::move(chosen), std::move(preview), std::move(setup->hosts)};
}

LaunchPreview makeCountedPreview(const LaunchInputs& in) {
  LaunchPreview out = makeLaunchPreview(in);
  if (out.preview) out.samples = app::samplesToLaunch(*out.request->spec);
  return out;
}

Result<app::Advice> adviseLaunch(const LaunchInputs& in, const std::vector<std::string>& pins,
                                 const std::vector<std::string>& precisions,
                                 std::function<void(std::size_t planned)> onProgress) {
  LOCKSTEP_ASSIGN(LaunchSetup setup, setupOf(in));
  LOCKSTEP_ASSIGN(app::SearchStart start, app::searchStart(setup.spec));
  LOCKSTEP_TRY(app::pin(start, pins));
  app::AdviceOptions search;
  search.threads = static_cast<std::size_t>(app::usableCores());
  search.stop = in.stop;
  search.precisions = precisions;
  search.onProgress = std::move(onProgress);
  std::optional<Error> unmeasured;
  if (!in.repeatedRun.empty()) {
    const auto by = measuredBy(in, setup.hosts);
    if (by.ok()) return app::adviseAsMeasured(by->subject, by->launched, start, std::move(search));
    if (by.error().code == Code::kCancelled) return by.error();
    unmeasured = by.error();
  }
  LOCKSTEP_ASSIGN(app::Advice advice,
                  app::advise(std::move(setup.request), start, setup.hosts, std::move(search)));
  advice.unmeasured = std::move(unmeasured);
  return advice;
}

std::vector<Candidate> compareStrategies(
    const std::vector<std::pair<std::string, LaunchInputs>>& strategies) {
  std::vector<Candidate> out;
  for (const auto& [name, inputs] : strategies) {
    if (inputs.stop.stop_requested()) break;  // nobody looks at them any more
    const LaunchPreview made = makeLaunchPreview(inputs);
    Candidate one;
    one.strategy = name;
    if (made.preview) {
      one.stepSeconds = made.preview->stepSeconds;
      one.bubbleShare = app::bubbleShare(*made.preview);
      one.memoryBytes = app::peakMemory(*made.preview);
      one.wireBytes = app::wireBytes(made.preview->plan);
      one.linkBytes = app::linkBytes(*made.preview);
      const app::Energy energy = app::predictedEnergy(*made.preview);
      if (energy.seconds > 0 && energy.isComplete()) one.joules = energy.joules();
      one.misfit = made.preview->misfit;
    } else {
      one.refusal = made.preview.error();
    }
    out.push_back(std::move(one));
  }
  return out;
}

}  // namespace lockstep::ui
