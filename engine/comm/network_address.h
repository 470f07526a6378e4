// Which address of this host peers connect to.
#pragma once

#include <string>

#include "engine/base/status.h"

namespace lockstep::comm {

// The numeric form of `address` (a name or a number; it must be of this host), or the first address
// of `interface` (IPv4 before IPv6), or loopback where both are empty. Errors: kFailedPrecondition
// naming the address or the interface.
Result<std::string> ownAddress(const std::string& address, const std::string& interface);

// The interface that has a numeric address; "" where none of this host's has it.
std::string interfaceOf(const std::string& address);

}  // namespace lockstep::comm
