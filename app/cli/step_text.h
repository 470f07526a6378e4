// Steps as text: a timeline, the times of all steps, the traffic of one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "app/cli/terminal.h"
#include "app/runs/preview.h"
#include "app/runs/step_matrix.h"
#include "app/runs/step_timeline.h"
#include "engine/plan/traffic.h"

namespace lockstep::app::cli {

std::string_view phaseText(const plan::Event& event);  // "forward", "waiting", …
std::string_view phaseText(SpanKind kind);
// The nodes of the ranks; fewer where not all are known.
std::vector<std::string> rankNodes(const Preview& preview);
// One row a rank: what it does in the step, as letters over time. Empty without spans.
std::string timelineText(const StepTimeline& step, const std::vector<std::string>& nodes,
                         const Style& style, int columns);
// Of the steps from `first` on.
std::string matrixText(const StepMatrix& matrix, std::int64_t first = 1);
std::string trafficText(const std::vector<plan::Traffic>& traffic);

}  // namespace lockstep::app::cli
