// Threads and CPU affinity. A rank's compute thread may be pinned; helper threads (data loading,
// sending) are not, wherever they are started from.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace lockstep {

// Returns the cores that this process was given at start, ascending, regardless of later pinning.
std::vector<int> givenCores();

// Pins thread `id` of this process (0: the calling one) to `cores`. Returns false where the kernel
// refuses, because a core was taken from this process.
bool pinThread(int id, std::span<const int> cores);
// Moves a pinned thread from `cores` to others, with the threads that it has started to compute,
// which have the same cores. Returns false where it stays.
bool moveThread(int id, std::span<const int> cores, std::span<const int> others);
int threadId();  // of the calling thread

// Starts a helper thread that may run on any of givenCores(). `name`, shown by process viewers, is
// cut to 15 characters.
std::thread helperThread(std::string name, std::function<void()> body);

}  // namespace lockstep
