// Heartbeats of rank 0 to ranks that wait for it while it works on files: a slow disk is not a
// frozen rank.
//
// The work has a thread of its own. Until it is done, rank 0 tells the others once a second that it
// is alive, so that their collectives go on and end by their own limit where rank 0 is frozen or
// dead. Where the disk makes no progress for DiskWait::limit, the run ends on all ranks.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>

#include "engine/base/status.h"
#include "engine/runtime/groups.h"

namespace lockstep::runtime {

// How this process waits for its disk. Set before ranks run.
struct DiskWait {
  // The longest wait for one tensor, or for one flush.
  std::chrono::nanoseconds limit = std::chrono::minutes(30);
  // Called on rank 0 when the limit has passed; does not return. A thread that hangs in the kernel
  // cannot be joined, so a process that can leaves by _exit. Null: rank 0 returns the error when
  // the disk answers; the other ranks return it at once.
  std::function<void(const Error&)> onStuck;
};
DiskWait& diskWait();
// Returns the error of a rank whose disk exceeded the limit; `task` as for Heartbeat.
Error diskStuck(const std::string& task, int rank = 0);

class Heartbeat {
 public:
  // `task` is what rank 0 does, for errors: "writing /runs/7/checkpoints".
  Heartbeat(const Groups& groups, int rank, std::string task);

  // All ranks: the others wait here until rank 0 comes. A collective.
  Status meet();
  // Rank 0: waits until `done`, which is looked at under the lock whenever `changed` is notified.
  Status await(std::unique_lock<std::mutex>& lock, std::condition_variable& changed,
               const std::function<bool()>& done);

 private:
  Status tell(std::int64_t& said);
  const Groups groups_;
  const int rank_;
  const std::string task_;
  std::chrono::steady_clock::time_point due_;  // of the next one
};

}  // namespace lockstep::runtime
