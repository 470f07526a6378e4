#include "app/whatif/subject.h"

#include <algorithm>
#include <set>

#include "app/whatif/predicted_step.h"
#include "engine/plan/traffic.h"

namespace lockstep::app {

namespace {

std::vector<std::pair<std::string, std::string>> linksOf(const MeasuredRun& run) {
  if (run.nodes.empty() || run.plan.mesh.size() > kMostLinkedRanks) return {};
  std::set<std::pair<std::string, std::string>> out;
  for (const plan::Traffic& sent : plan::stepTraffic(run.plan)) {
    const std::string& from = run.nodes[static_cast<std::size_t>(sent.from)];
    const std::string& to = run.nodes[static_cast<std::size_t>(sent.to)];
    if (from != to) out.insert(std::minmax(from, to));
  }
  return {out.begin(), out.end()};
}

// Replays the steps.
Result<WhatIfSubject> replayedSubject(MeasuredRun steps, Result<Launched> launched,
                                      const std::stop_token& stop) {
  Replayed replayed = replayOf(steps, stop);
  LOCKSTEP_TRY(unlessStopped(stop));
  auto links = linksOf(steps);
  return WhatIfSubject{std::move(steps), std::move(replayed), std::move(launched),
                       std::move(links)};
}

}  // namespace

Result<WhatIfSubject> subjectOf(const History& history, const RunRow& row, std::int64_t last,
                                std::stop_token stop) {
  LOCKSTEP_ASSIGN(MeasuredRun steps, readMeasuredRun(history, row, last, stop));
  return replayedSubject(std::move(steps), launchOf(history, row.run), stop);
}

Result<WhatIfSubject> subjectOf(const Preview& preview, Launched launched, std::stop_token stop) {
  LOCKSTEP_ASSIGN(MeasuredRun steps, predictedStep(preview));
  return replayedSubject(std::move(steps), std::move(launched), stop);
}

}  // namespace lockstep::app
