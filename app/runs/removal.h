// What nodes keep of runs that were deleted from the history.
#pragma once

#include <stop_token>
#include <vector>

#include "app/cluster/node_access.h"
#include "app/history/history.h"

namespace lockstep::app {

// Asks connected nodes to remove their parts of deleted runs; those of nodes out of reach stay noted in
// the history for the next time. Best effort, blocking for seconds at most.
void removeDeletedRuns(History& history, const std::vector<NodeAccess*>& nodes, const std::stop_token& stop);

// Nodes that may still keep a part of a deleted run, from what the history noted.
std::vector<std::string> nodesKeeping(const History& history, const std::string& run);

}  // namespace lockstep::app
