// What is asked what-if questions: the measured steps of a run, or the predicted step of a launch.
#pragma once

#include <cstdint>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "app/whatif/planned_anew.h"
#include "app/whatif/what_if.h"
#include "engine/base/status.h"

namespace lockstep::app {

struct WhatIfSubject {
  MeasuredRun steps;
  Replayed replayed;          // of the steps, without a change
  Result<Launched> launched;  // error: it cannot be planned anew
  // Pairs of nodes that exchange something; none of more than kMostLinkedRanks.
  std::vector<std::pair<std::string, std::string>> links = {};
  bool isPredicted() const { return steps.run.empty(); }
};
// `last` as of readMeasuredRun(). Errors: those of readMeasuredRun().
Result<WhatIfSubject> subjectOf(const History& history, const RunRow& row, std::int64_t last = 0,
                                std::stop_token stop = {});
// `preview` is that of `launched`. Errors: those of predictedStep(); kCancelled where
// `stop` was requested.
Result<WhatIfSubject> subjectOf(const Preview& preview, Launched launched,
                                std::stop_token stop = {});

}  // namespace lockstep::app
