// What a launch would run, in full: its settings as they apply, and the limits that follow from
// each other.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "app/runs/preview.h"
#include "engine/base/message.h"

namespace lockstep::app {

// Returns the samples of the training data; 0: they are not on this machine, or too many to count
// while a person waits.
std::int64_t samplesToLaunch(const spec::v1::RunSpec& spec);

struct SummaryRow {
  Message label, value;
};
// `samples`: of the training data (samplesToLaunch()); 0: not known.
std::vector<SummaryRow> launchSummary(const LaunchRequest& request, const Preview& preview,
                                      std::int64_t samples);

std::string summaryText(const std::vector<SummaryRow>& rows);  // a line for each
std::string summaryJson(const std::vector<SummaryRow>& rows);  // [{"label": …, "value": …}, …]

}  // namespace lockstep::app
