// Members: the nodes of a run's generation when a node is lost.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "lockstep/node/v1/node.pb.h"

namespace lockstep::agent {

// Returns the ranks of each node that has some, as a plan for the request's cluster numbers them.
std::map<std::string, std::vector<int>> ranksByNode(const node::v1::PrepareRequest& request);

// Returns the members without the nodes `lost`. A spare that `answers` takes the place of each;
// where there is none, the run is planned anew for the other nodes if recovery.policy is shrink.
// The batch of a step stays as it is, and is divided among fewer ranks. Errors: kUnavailable where
// neither is possible; the planner's, where it has no plan for them.
Result<node::v1::Members> membersWithout(const std::vector<std::string>& lost,
                                         const node::v1::PrepareRequest& request,
                                         const std::function<bool(const std::string&)>& answers);

// Makes the request that of these members.
void apply(const node::v1::Members& members, node::v1::PrepareRequest& request);

}  // namespace lockstep::agent
