// Live view of a run in a terminal, redrawn in place about ten times a second.
#pragma once

#include <memory>

#include "app/cli/run_report.h"

namespace lockstep::app::cli {

std::unique_ptr<RunReport> makeLiveView();

std::string resultText(const RunResult& result);  // one line

}  // namespace lockstep::app::cli
