// Removes what processes left that were killed, or on a disk that was full.
#pragma once

#include <stop_token>

#include "agent/base/paths.h"

namespace lockstep::agent {

// Sockets nobody serves, keys of runs that are not under way, folders half removed, leases of
// processes that are gone. Idempotent; what was made in the last minute is left alone, as it may be
// on its way. What somebody serves again meanwhile is not touched: it is looked at and removed
// under the lock that its server would hold.
void sweepWorkdir(const Workdir& workdir);

// At once, and then each minute until it is stopped. A disk may make it slow: it has a thread of
// its own.
void keepSwept(const Workdir& workdir, const std::stop_token& stop);

}  // namespace lockstep::agent
