// Rendezvous: establishes a TCP connection between every two ranks of a group. Each rank listens on
// a port, which it publishes in the store with a one-time key; both ends of a connection prove that
// they know the key. Connections that do not are closed: the store is private to the group, the
// port is not.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/base/unique_fd.h"
#include "engine/comm/communicator.h"

namespace lockstep::comm {

struct MetPeer {
  UniqueFd connection;  // to the peer; empty for the rank itself
  std::string place;    // host:port, for messages
};

// Returns the connections by rank: non-blocking sockets with nothing read or written beyond the
// greeting. The listening socket is closed on return.
Result<std::vector<MetPeer>> meet(const GlooOptions& options, Store& store);

}  // namespace lockstep::comm
