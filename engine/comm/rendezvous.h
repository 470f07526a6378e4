// Rendezvous: one TCP connection between every two ranks of a group. Each rank listens at one port,
// which it announces in the store together with a key made for this once; who connects proves that
// it knows the key, and so does who is connected to. Whatever else comes to the port is hung up on,
// and disturbs nothing: the store is the group's own, the port is anybody's.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/base/unique_fd.h"
#include "engine/comm/communicator.h"

namespace lockstep::comm {

struct MetPeer {
  UniqueFd connection;  // of a peer; nothing for the rank itself
  std::string place;    // host:port, for messages
};

// Entry r is the connection with rank r: sockets that do not block, with nothing read or written
// beyond the greeting. Afterwards the rank does not listen any more.
// Errors: those of ownAddress; kUnavailable naming the peer that did not come, and its place.
Result<std::vector<MetPeer>> meet(const GlooOptions& options, Store& store);

}  // namespace lockstep::comm
