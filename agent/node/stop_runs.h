// Stops the runs of a node before the node is taken away.
#pragma once

#include "agent/base/paths.h"

namespace lockstep::agent {

// Asks each run that this node coordinates to take a checkpoint and stop. Blocks for at most ten
// seconds a run; does not wait until they have ended. A run that another node coordinates is left
// to that node.
void stopRuns(const Workdir& workdir);

}  // namespace lockstep::agent
