// What `lockstep-agent metrics` serves: the load of this node and its GPUs, and the runs here.
#pragma once

#include <string>

#include "agent/base/paths.h"
#include "lockstep/run/v1/telemetry.pb.h"

namespace lockstep::agent {

// Returns the page in Prometheus' text format, with the names that `lockstep metrics` gives, and
// this label `node`. Runs are those of the workdir whose supervisor is there and that have not
// ended.
std::string metricsPage(const std::string& node, const run::v1::NodeSample& sample,
                        const Workdir& workdir);

}  // namespace lockstep::agent
