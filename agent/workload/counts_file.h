// The file beside the pipe of a rank, in which the rank's process counts the collectives that it
// has begun: resources/python/lockstep/_counts.py those that Python calls, nccl_profiler.cc those
// of NCCL. The worker reads it at any time.
#pragma once

#include <cstdint>

namespace lockstep::agent {

struct CountsEntry {  // of a group
  std::uint64_t begun;
  std::uint64_t order;   // of the last one, among those of all groups of its table
  std::uint64_t inside;  // the last one goes on
  char last[36], group[36];
};

struct CountsTable {
  std::uint64_t process;  // that counts; 0: none has
  CountsEntry entries[64];
};

struct CountsFile {
  CountsTable python, nccl;
};

}  // namespace lockstep::agent
