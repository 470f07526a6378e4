// A run's curves as metrics of OpenTelemetry: OTLP in its JSON encoding.
#pragma once

#include <string>

#include "app/history/history.h"
#include "engine/base/status.h"

namespace lockstep::app {

// Returns requests of OTLP/HTTP to /v1/metrics, one a line of at most 2000 points, which collectors
// also read from files (otlpjsonfile). Each series is a gauge: "node/n1/gpu/0/utilisation" is the
// metric "lockstep.gpu.utilisation" with the attributes node and gpu, "rank/2/forward" is
// "lockstep.rank.forward" with rank, "node/n1/to/n2/rate" is "lockstep.link.rate" with node and to,
// "loss" is "lockstep.run.loss"; a value of a program of the user's own is "lockstep.scalar" with
// its tag. The run's id, model and cluster are attributes of the resource. Points are at the times
// of StepTimes; those without a time are left out. Errors: those of the history.
Result<std::string> otlpOfRun(const History& history, const std::string& run);

}  // namespace lockstep::app
