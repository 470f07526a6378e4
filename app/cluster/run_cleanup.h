// What nodes still have of runs that ended in the history while the nodes were out of reach: given
// up or deleted.
#pragma once

#include <stop_token>
#include <string>
#include <vector>

#include "app/cluster/node_access.h"
#include "app/core/home.h"
#include "app/history/history.h"

namespace lockstep::app {

// Ends a connected node's part of every run that was given up or deleted, removes that of a deleted
// one, and forgets what is done. Idempotent. What fails stays noted for the next connection. Blocks
// for ten seconds at most.
void cleanUpNode(const Home& home, NodeAccess& node, const std::stop_token& stop);

// The same for several nodes at once.
void cleanUpNodes(const Home& home, const std::vector<NodeAccess*>& nodes,
                  const std::stop_token& stop);

// Nodes that may still have a part of a run that was given up or deleted, the coordinator first.
std::vector<std::string> nodesKeeping(const History& history, const std::string& run);

}  // namespace lockstep::app
