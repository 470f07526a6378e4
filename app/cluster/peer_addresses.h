// How the nodes of a run reach each other: an address for each, chosen where the cluster gives
// none, and proven by connections between all of them.
#pragma once

#include <stop_token>
#include <string>
#include <vector>

#include "app/cluster/node_access.h"
#include "engine/base/status.h"

namespace lockstep::spec::v1 {
class NodeSpec;
}

namespace lockstep::app {

// Whether all share one network stack, so that loopback leads from each to each.
bool onOneHost(const std::vector<const NodeInventory*>& nodes);

// Addresses of a node, the likeliest to be reached by other nodes first: what its spec says; else
// loopback where all nodes are on one host; else the one SSH arrived at, then the others, IPv4
// first.
std::vector<std::string> addressCandidates(const spec::v1::NodeSpec& node,
                                           const NodeInventory& inventory, bool oneHost);

struct PeerNode {
  const spec::v1::NodeSpec* spec = nullptr;
  NodeAccess* access = nullptr;  // connected
  NodeInventory inventory;
  bool joinsFirstOnly = false;  // reaches the first node, and no node reaches it
};

// The first candidate of each node that every node which needs it has connected to, as a number.
// Blocking. Errors: kFailedPrecondition naming two nodes, the addresses tried and what came of
// each; kUnavailable, kCancelled.
Result<std::vector<std::string>> provePeerAddresses(const std::vector<PeerNode>& nodes,
                                                    std::stop_token stop);

}  // namespace lockstep::app
