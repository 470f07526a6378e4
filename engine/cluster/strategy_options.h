// What strategies take of the options that not all of them have. These rules need neither a model
// nor a cluster: a spec is held to them where it is read, and a request to the planner before it is
// planned.
#pragma once

#include "engine/base/status.h"
#include "engine/cluster/strategies.h"

namespace lockstep::cluster {

struct StrategyOptions {
  int servers = 0, tensor = 1, stages = 1, staleness = 0, microBatches = 1, deterministicParts = 0;
  bool shares = false;  // the batch is divided by them
};

// Errors: kInvalidArgument in the words of the spec's fields, with remedies; `why` is the path of
// the field.
Status checkOptions(const Strategy& strategy, const StrategyOptions& options);

}  // namespace lockstep::cluster
