// Garbage collection of what killed processes and full disks left behind.
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

// Removes sockets without a server, keys of runs that are not running, partly removed folders and
// leases of dead processes. Idempotent. Spares everything younger than a minute, which may be in
// progress. Takes the lock that a server would hold, so that a server that starts meanwhile is
// safe.
void sweepWorkdir(const Workdir& workdir);

// Sweeps repeatedly. Caches which requests have no keys, until their files change.
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

// Sweeps at once and then every minute until stopped, on its own thread, since the disk may be
// slow.
void keepSwept(const Workdir& workdir, const std::stop_token& stop);

}  // namespace lockstep::agent
