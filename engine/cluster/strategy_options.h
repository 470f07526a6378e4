// Checks which options a strategy supports. Needs neither a model nor a cluster: used when a spec
// is read, and again by the planner.
#pragma once

#include "engine/base/status.h"
#include "engine/cluster/strategies.h"

namespace lockstep::cluster {

struct StrategyOptions {
  int servers = 0, tensor = 1, stages = 1, staleness = 0, microBatches = 1, deterministicParts = 0;
  bool shares = false;  // the batch is divided in proportion to shares
};

// Errors: kInvalidArgument naming the spec's fields, with remedies; `why` is the field's path.
Status checkOptions(const Strategy& strategy, const StrategyOptions& options);

}  // namespace lockstep::cluster
