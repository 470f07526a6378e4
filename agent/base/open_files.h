// How many files and sockets a process may have open.
#pragma once

#include <cstdint>

namespace lockstep::agent {

// Raises the soft limit to 65536, or to the hard limit if that is lower: the usual 1024 does not
// cover the connections that ports allow before they authenticate, and those of many ranks.
// `original` is the limit before the process that started this one raised it; 0: as it is now.
// Called before there are other threads.
void raiseOpenFiles(std::uint64_t original = 0);
// Returns the limit before it was raised; 0 if it was not.
std::uint64_t originalOpenFiles();
// Restores that limit, between fork and exec. Async-signal-safe.
void restoreOpenFiles();

}  // namespace lockstep::agent
