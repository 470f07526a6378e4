// A run as one HTML page that needs nothing else: no network, scripts or fonts. Its curves are
// inline SVG, its markup is well-formed XML, and no text of a run can be anything but text in it.
#pragma once

#include <string>

#include "app/history/history.h"
#include "app/report/chart.h"
#include "engine/base/status.h"

namespace lockstep::app {

// What was recorded of the run `run`: figures, errors, curves, prediction beside measurement,
// stragglers, restarts, epochs, nodes and versions, spec and plan. A cell's attribute data-value
// has the number as it is stored, with all its digits. Errors: those of the history.
Result<std::string> htmlReport(const History& history, const std::string& run);

// The chart of one series of the run, as it stands in the report; "loss", "accuracy" and the like
// with their evaluations. Errors: kNotFound if the run has no such series; those of the history.
Result<Chart> chartOf(const History& history, const std::string& run, const std::string& series);

}  // namespace lockstep::app
