// Chooses the address of this host that peers connect to.
#pragma once

#include <string>

#include "engine/base/status.h"

namespace lockstep::comm {

// Returns the numeric form of `address` (a name or number of this host), or the first address of
// `interface` (IPv4 before IPv6), or loopback if both are empty. Errors: kFailedPrecondition naming
// the address or the interface.
Result<std::string> ownAddress(const std::string& address, const std::string& interface);

// Returns the interface with this numeric address, "" if none has it.
std::string interfaceOf(const std::string& address);

}  // namespace lockstep::comm
