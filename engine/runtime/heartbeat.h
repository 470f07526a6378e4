// Heartbeats of rank 0 to ranks that wait for it while it works on files: a slow disk is not a
// frozen rank.
//
// The work has a thread of its own. Until it is done, rank 0 tells the others once a second that it
// is alive, so that their collectives go on and end by their own limit where rank 0 is frozen or
// dead. If the disk makes no progress for 30 minutes, the other ranks fail with kDeadlineExceeded.
// Rank 0 itself still joins its thread, so it ends when the disk answers or when it is killed.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "engine/base/status.h"
#include "engine/runtime/groups.h"

namespace lockstep::runtime {

class Heartbeat {
 public:
  Heartbeat(const Groups& groups, int rank);

  // All ranks: the others wait here until rank 0 comes. A collective.
  Status meet();
  // Rank 0: waits until `done`, which is looked at under the lock whenever `changed` is notified.
  Status await(std::unique_lock<std::mutex>& lock, std::condition_variable& changed,
               const std::function<bool()>& done);
  // All ranks: returns what `work`, which rank 0 does, returns there; what went wrong with the
  // others elsewhere.
  Status doAtRankZero(const std::function<Status()>& work);

 private:
  Status tell(std::int64_t& said);
  const Groups groups_;
  const int rank_;
  std::chrono::steady_clock::time_point due_;  // of the next one
};

}  // namespace lockstep::runtime
