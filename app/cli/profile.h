// Exports a training step as a Chrome trace, and as a table of its ops against the machine's peak.
#pragma once

#include <string>
#include <vector>

#include "app/cli/terminal.h"
#include "engine/plan/plan.h"
#include "lockstep/run/v1/telemetry.pb.h"

namespace lockstep::app::cli {

// Peak rates of the machine, measured in the same run.
struct MachineLimits {
  double flopsPerSecond = 0;  // of a large product
  double bytesPerSecond = 0;  // of adding up arrays that no cache holds
};

// Writes complete events for chrome://tracing and Perfetto: one process per rank, with thread 0 for
// the compute stream and thread 1 for the communication stream. Ignores steps that are not in the
// plan.
std::string chromeTrace(const plan::Plan& plan, const std::vector<run::v1::EventChunk>& ranks);

// Returns a table by kind of op, longest first: its share of rank 0's step, and its fraction of the
// peak.
Table profileTable(const plan::Plan& plan, const run::v1::EventChunk& rank,
                   const MachineLimits& limits);

}  // namespace lockstep::app::cli
