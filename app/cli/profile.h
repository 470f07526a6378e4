// A step of a training as a Chrome trace, and as a table of its operations against the machine's
// limits.
#pragma once

#include <string>
#include <vector>

#include "app/cli/terminal.h"
#include "engine/plan/plan.h"
#include "lockstep/run/v1/telemetry.pb.h"

namespace lockstep::app::cli {

// What the machine does at most, measured in the same run.
struct MachineLimits {
  double flopsPerSecond = 0;  // of a large product
  double bytesPerSecond = 0;  // of adding up arrays that no cache holds
};

// Complete events of each rank, a process each: thread 0 is the compute stream, thread 1 the
// communication stream. For chrome://tracing and Perfetto. Steps that the plan does not have are
// left out.
std::string chromeTrace(const plan::Plan& plan, const std::vector<run::v1::EventChunk>& ranks);

// By kind of operation, the longest first: its share of rank 0's step, and how near it comes to the
// limits.
Table profileTable(const plan::Plan& plan, const run::v1::EventChunk& rank,
                   const MachineLimits& limits);

}  // namespace lockstep::app::cli
