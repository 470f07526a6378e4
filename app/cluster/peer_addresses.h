// Chooses an address for each node of a run, where the cluster gives none, and checks them by
// connections between all nodes.
#pragma once

#include <stop_token>
#include <string>
#include <vector>

#include "app/cluster/node_access.h"
#include "engine/base/status.h"

namespace lockstep::node::v1 {
class ListenForPeersReply;
class ReachPeersReply;
}  // namespace lockstep::node::v1
namespace lockstep::spec::v1 {
class NodeSpec;
}

namespace lockstep::app {

// Returns whether all nodes share one network stack, so that they reach each other on loopback.
bool onOneHost(const std::vector<const NodeInventory*>& nodes);

// Returns candidate addresses of a node, the most likely first: the spec's; else loopback if all
// nodes are on one host; else the one SSH connected to, then the others, IPv4 first.
std::vector<std::string> addressCandidates(const spec::v1::NodeSpec& node,
                                           const NodeInventory& inventory, bool oneHost);

// Where a node listens for its peers.
struct PeerListener {
  std::string address;  // numeric
  int port = 0;
  Message problem;  // why it cannot listen there; empty: it does
};
// Of a node that was asked to listen at `asked` addresses. kDataLoss where it tells of others.
Result<std::vector<PeerListener>> listenersOf(const node::v1::ListenForPeersReply& reply,
                                              std::size_t asked, const std::string& node);
// Of a node that was asked to reach `asked` listeners, for each: why it does not; empty: it does.
std::vector<Message> outcomesOf(const node::v1::ReachPeersReply& reply, std::size_t asked);

struct PeerNode {
  const spec::v1::NodeSpec* spec = nullptr;
  NodeAccess* access = nullptr;  // connected
  NodeInventory inventory;
  bool joinsFirstOnly = false;  // reaches the first node, and no node reaches it
};

// Returns for each node the first candidate that all nodes that need it can connect to, in numeric
// form. Blocking. Errors: kFailedPrecondition naming two nodes, the addresses tried and their
// results; kUnavailable, kCancelled.
Result<std::vector<std::string>> provePeerAddresses(const std::vector<PeerNode>& nodes,
                                                    std::stop_token stop);

}  // namespace lockstep::app
