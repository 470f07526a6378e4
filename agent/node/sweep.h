// Removes what processes left that were killed, or on a disk that was full.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

#include "agent/base/paths.h"
#include "agent/base/run_folder.h"

namespace lockstep::agent {

// Sockets nobody serves, keys of runs that are not under way, folders half removed, leases of
// processes that are gone. Idempotent; what was made in the last minute is left alone, as it may be
// on its way. What somebody serves again meanwhile is not touched: it is looked at and removed
// under the lock that its server would hold.
void sweepWorkdir(const Workdir& workdir);

// Sweeps repeatedly. Remembers which requests have no keys, and does not read them again while
// their files are the same.
class Sweeper {
 public:
  explicit Sweeper(Workdir workdir) : workdir_(std::move(workdir)) {}
  void sweep();

 private:
  using Stamp = std::array<std::int64_t, 3>;  // inode, modification in s and ns
  static std::optional<Stamp> stampOf(const std::string& path);
  void dropKeys(const RunFolder& folder);
  const Workdir workdir_;
  std::map<std::string, Stamp> keyless_;  // requests
};

// At once, and then each minute until it is stopped. A disk may make it slow: it has a thread of
// its own.
void keepSwept(const Workdir& workdir, const std::stop_token& stop);

}  // namespace lockstep::agent
