// The address of this host that peers connect to, and sockets that listen only on that address.
#pragma once

#include <string>

#include "engine/base/status.h"
#include "engine/base/unique_fd.h"

namespace lockstep::comm {

// Returns the numeric form of `address` (a name or number of this host), or the first address of
// `interface` (IPv4 before IPv6), or loopback if both are empty. Errors: kFailedPrecondition naming
// the address or the interface.
Result<std::string> ownAddress(const std::string& address, const std::string& interface);

// Returns the interface with this numeric address, "" if none has it.
std::string interfaceOf(const std::string& address);

// A listening, non-blocking socket, bound to one address.
struct Listener {
  UniqueFd socket;
  int port = 0;
};
// Listens on a free port of a numeric address of this host. Errors: system errors.
Result<Listener> listenAt(const std::string& address);

}  // namespace lockstep::comm
