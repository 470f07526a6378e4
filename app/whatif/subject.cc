#include "app/whatif/subject.h"

#include <algorithm>
#include <set>

#include "app/whatif/predicted_step.h"
#include "engine/plan/traffic.h"

namespace lockstep::app {

std::vector<std::pair<std::string, std::string>> WhatIfSubject::links() const {
  std::set<std::pair<std::string, std::string>> out;
  if (steps.nodes.empty()) return {};
  for (const plan::Traffic& sent : plan::stepTraffic(steps.plan)) {
    const std::string& from = steps.nodes[static_cast<std::size_t>(sent.from)];
    const std::string& to = steps.nodes[static_cast<std::size_t>(sent.to)];
    if (from != to) out.insert(std::minmax(from, to));
  }
  return {out.begin(), out.end()};
}

Result<WhatIfSubject> subjectOf(const History& history, const RunRow& row, std::int64_t last,
                                std::stop_token stop) {
  LOCKSTEP_ASSIGN(MeasuredRun steps, readMeasuredRun(history, row, last, stop));
  Replayed replayed = replayOf(steps, stop);
  LOCKSTEP_TRY(unlessStopped(stop));
  return WhatIfSubject{std::move(steps), std::move(replayed), launchOf(history, row.run)};
}

Result<WhatIfSubject> subjectOf(const Preview& preview, Launched launched, std::stop_token stop) {
  LOCKSTEP_ASSIGN(MeasuredRun steps, predictedStep(preview));
  Replayed replayed = replayOf(steps, stop);
  LOCKSTEP_TRY(unlessStopped(stop));
  return WhatIfSubject{std::move(steps), std::move(replayed), std::move(launched)};
}

}  // namespace lockstep::app
