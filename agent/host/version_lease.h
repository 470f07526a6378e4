// Says that a process runs from a deployed version, to every host that shares its folder: a file
// versions/<version>/leases/<boot id>.<process namespace>.<pid>, made anew each hour. What removes
// old versions (app/deploy) spares one with a lease of a process here, or of another host in three
// days.
#pragma once

#include <string>

#include "agent/base/event_loop.h"

namespace lockstep::agent {

class VersionLease {
 public:
  // Renewed by the loop; nothing where this program is of no deployed version.
  explicit VersionLease(EventLoop& loop);
  ~VersionLease();  // given back
  VersionLease(const VersionLease&) = delete;
  VersionLease& operator=(const VersionLease&) = delete;

 private:
  void renew() const;
  std::string path_;
};

// Removes, from all deployed versions, the leases of processes of this host that were killed and
// those of earlier boots of this host, known by its name and /etc/machine-id. Leases of other hosts
// stay.
void removeDeadLeases();

}  // namespace lockstep::agent
