// Garbage collection of what killed processes and full disks left behind.
#pragma once

#include <stop_token>

#include "agent/base/paths.h"

namespace lockstep::agent {

// Removes sockets without a server, partly removed folders and leases of dead processes.
// Idempotent. Skips sockets younger than a minute, which may not be served yet. Takes the lock that
// a server would hold, so that a server may start at the same time.
void sweepWorkdir(const Workdir& workdir);

// Sweeps at once and then every minute until stopped, on its own thread, since the disk may be
// slow.
void keepSwept(const Workdir& workdir, const std::stop_token& stop);

}  // namespace lockstep::agent
