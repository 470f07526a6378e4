// Proof that nodes reach each other before a run depends on it: one listens and greets, the others
// connect and expect that greeting.
#pragma once

#include <functional>

#include "lockstep/node/v1/node.pb.h"

namespace lockstep::agent {

// Listens on every address of the request, on free ports, and greets who connects, until
// `cancelled` or for a minute. `ready` is called once with where it listens; false from it ends the
// call.
void listenForPeers(const node::v1::ListenForPeersRequest& request,
                    const std::function<bool(const node::v1::ListenForPeersReply&)>& ready,
                    const std::function<bool()>& cancelled);

// Connects to all targets at once, and says of each why it was not reached.
node::v1::ReachPeersReply reachPeers(const node::v1::ReachPeersRequest& request,
                                     const std::function<bool()>& cancelled);

}  // namespace lockstep::agent
