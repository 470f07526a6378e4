// Checks that nodes reach each other before a run: one listens and sends a greeting, the others
// connect and expect it.
#pragma once

#include <functional>

#include "lockstep/node/v1/node.pb.h"

namespace lockstep::agent {

// Listens on every address of the request, on free ports, and greets each connection, until
// `cancelled` or for a minute. Calls `ready` once with the addresses; returns if it returns false.
void listenForPeers(const node::v1::ListenForPeersRequest& request,
                    const std::function<bool(const node::v1::ListenForPeersReply&)>& ready,
                    const std::function<bool()>& cancelled);

// Connects to all targets concurrently. Reports why a target was not reached.
node::v1::ReachPeersReply reachPeers(const node::v1::ReachPeersRequest& request,
                                     const std::function<bool()>& cancelled);

}  // namespace lockstep::agent
