// Members: the nodes of a run's generation after a node was lost.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "lockstep/node/v1/node.pb.h"

namespace lockstep::agent {

// Returns the ranks of each node that has ranks, numbered as in a plan for the request's cluster.
std::map<std::string, std::vector<int>> ranksByNode(const node::v1::PrepareRequest& request);

// Returns the members without the nodes `lost`. A spare that `answers` replaces each of them; if
// there is none and recovery.policy is shrink, the run is planned again for the remaining nodes,
// which divide the same global batch. Errors: kUnavailable if neither is possible; those of the
// planner.
Result<node::v1::Members> membersWithout(const std::vector<std::string>& lost,
                                         const node::v1::PrepareRequest& request,
                                         const std::function<bool(const std::string&)>& answers);

// Changes the request to these members.
void apply(const node::v1::Members& members, node::v1::PrepareRequest& request);

}  // namespace lockstep::agent
