// Stops the runs of a node before the node is taken away.
#pragma once

#include <set>
#include <string>

#include "agent/base/paths.h"

namespace lockstep::agent {

// Asks each run that this node coordinates, and that is not in `asked`, to take a checkpoint and
// stop; adds those that do. Blocks for at most ten seconds a run; does not wait until they have
// ended. A run that another node coordinates is left to that node.
void stopRuns(const Workdir& workdir, std::set<std::string>& asked);

}  // namespace lockstep::agent
