// Cleans nodes up of runs that were given up or deleted while the nodes were unreachable.
#pragma once

#include <stop_token>
#include <string>
#include <vector>

#include "app/cluster/node_access.h"
#include "app/core/home.h"
#include "app/history/history.h"

namespace lockstep::app {

// Kills the processes of given-up and deleted runs on a connected node, and removes the files of
// deleted ones. Idempotent; failures are retried at the next connection. Blocks for at most ten
// seconds.
void cleanUpNode(const Home& home, NodeAccess& node, const std::stop_token& stop);

// Cleans up several nodes concurrently.
void cleanUpNodes(const Home& home, const std::vector<NodeAccess*>& nodes,
                  const std::stop_token& stop);

// Returns the nodes that may still have files of a given-up or deleted run, the coordinator first.
std::vector<std::string> nodesOf(const LeftRun& run);
std::vector<std::string> nodesKeeping(const History& history, const std::string& run);

}  // namespace lockstep::app
