// Removes what processes left that were killed, or on a disk that was full.
#pragma once

#include "agent/paths.h"

namespace lockstep::agent {

// Sockets nobody serves, keys of runs that are not under way, folders half removed. Idempotent; what
// was made in the last minute is left alone, as it may be on its way.
void sweepWorkdir(const Workdir& workdir);

}  // namespace lockstep::agent
