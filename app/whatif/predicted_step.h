// The predicted step of a launch as a run of such steps, so that what can be asked of a run can be
// asked before it.
#pragma once

#include "app/runs/preview.h"
#include "app/whatif/measured_run.h"
#include "engine/base/status.h"

namespace lockstep::app {

// The result's `run` is empty. Errors: kFailedPrecondition where ranks do not wait for each other,
// for a program of the user's own, and for a plan that is too large.
Result<MeasuredRun> predictedStep(const Preview& preview);

}  // namespace lockstep::app
