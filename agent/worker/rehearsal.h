// Training for a measurement: the real trainer, its loader and its telemetry, for some seconds.
#pragma once

#include <cstdint>
#include <vector>

#include "agent/worker/worker_link.h"
#include "engine/runtime/trainer.h"

namespace lockstep::agent {

// Trains on the table, or on made-up data, with the real trainer, its loader and its telemetry
// until rank 0's clock says that it is enough, `mostSteps` steps at most where it is above 0. The
// clock runs from the first step's end: what comes before, a server's making of large tables too,
// is no step. Where steps are long it is enough after some, and in any case after ten times as
// long. The records of the steps, the first of them left out.
Result<std::vector<runtime::StepRecord>> rehearse(const plan::Plan& plan,
                                                  const node::v1::WorkerStart& start,
                                                  WorkerLink& link, backends::Backend& backend,
                                                  const runtime::Groups& groups,
                                                  const data::Dataset* table, double seconds,
                                                  std::int64_t mostSteps = 0);
double medianDuration(const std::vector<runtime::StepRecord>& steps);  // seconds

}  // namespace lockstep::agent
