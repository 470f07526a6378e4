// Speeds of nodes and links beside each other as a run measured them, so that strategies can be
// sought for them: those of the cluster's spec are what is assumed before a run.
#pragma once

#include <vector>

#include "app/whatif/subject.h"
#include "engine/base/status.h"

namespace lockstep::app {

// Returns the run's launch on a cluster in which nodes are as many times slower than the fastest
// one as their ranks took longer to compute, beside what is simulated; and links between nodes are
// slower where exchanges took longer beside that. How long all of it takes is not scaled:
// MeasuredCosts do that. `known` tells the memory of nodes, which a run does not. Errors:
// kFailedPrecondition.
Result<Launched> launchAsMeasured(const WhatIfSubject& subject,
                                  const std::vector<HostFacts>& known = {});

}  // namespace lockstep::app
