// The state of a process, from /proc.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep::agent {

// What /proc/PID/stat says. The name may contain anything, parentheses and line ends too.
struct ProcessStat {
  std::string name;
  char state = '?';
  int parent = 0, threads = 0;
  std::uint64_t cpu = 0, start = 0;  // clock ticks: used in user and kernel mode; since boot
};
std::optional<ProcessStat> parseProcessStat(std::string_view text);

// Returns whether the process runs. One that has ended and waits to be reaped does not.
bool processRuns(int pid);

}  // namespace lockstep::agent
