// Threads and the cores they run on. A rank's compute thread may be pinned; what helps it, loads
// data or sends, is not, wherever it was started from.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace lockstep {

// The cores that this process was given from outside, ascending, whatever its threads were pinned
// to since.
std::vector<int> givenCores();

// The thread `id` of this process, 0 the calling one, runs on these cores alone from now on. False
// where the kernel refuses it: a core was taken away from this process.
bool pinThread(int id, std::span<const int> cores);
int threadId();  // of the calling one

// A thread that helps a compute thread: it runs on any of givenCores(). Named for people that look
// at the process, in 15 characters at most.
std::thread helperThread(std::string name, std::function<void()> body);

}  // namespace lockstep
