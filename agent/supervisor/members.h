// Members: the nodes of a run's generation after a node was lost, or its batch was divided anew.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "lockstep/node/v1/node.pb.h"

namespace lockstep::agent {

// Returns the ranks of each node that has ranks, numbered as in a plan for the request's cluster;
// at most kMaxRanks.
std::map<std::string, std::vector<int>> ranksByNode(const node::v1::PrepareRequest& request);

// Whether a run replaces nodes that are lost, or continues without them. `launched` has its spares:
// once all have ranks, a node that was lost may be back as one.
bool replacesNodes(const spec::v1::RunSpec& spec, const spec::v1::ClusterSpec& launched);

// Whether a run of so many nodes continues without any one of them, the coordinator included: it
// replaces nodes, and the others are a majority.
bool continuesWithoutAny(const spec::v1::RunSpec& spec, const spec::v1::ClusterSpec& launched,
                         std::size_t nodes);

// Returns the members without the nodes `lost`; the request's node coordinates them. A spare that
// `answers` replaces each of them; if there is none and recovery.policy is shrink, the run is
// planned again for the remaining nodes, which divide the same global batch: in the proportions
// that they had, as far as that is possible. Errors: kUnavailable if neither is possible; those of
// the planner.
Result<node::v1::Members> membersWithout(const std::vector<std::string>& lost,
                                         const node::v1::PrepareRequest& request,
                                         const std::function<bool(const std::string&)>& answers);

// Returns the members with spares that `answers` in the place of nodes that were lost, so that as
// many nodes have ranks as of the `launched` cluster, or as many as there are spares. Errors: those
// of the planner.
Result<node::v1::Members> membersWithSpares(const spec::v1::ClusterSpec& launched,
                                            const node::v1::PrepareRequest& request,
                                            const std::function<bool(const std::string&)>& answers);

// Returns the same members, which divide the batch by these shares. Errors: those of the planner.
Result<node::v1::Members> membersSharing(const std::vector<double>& shares,
                                         const node::v1::PrepareRequest& request);

// Changes the request to these members. Errors: kInvalidArgument if a node has more ranks than a
// run can have, as members from another node may; the request is then unchanged.
Status apply(const node::v1::Members& members, node::v1::PrepareRequest& request);

}  // namespace lockstep::agent
