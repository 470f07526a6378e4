// Lease of a process on the deployed version it runs from, visible to every host that shares the
// folder: a file versions/<version>/leases/<boot id>.<process namespace>.<pid>, renewed each hour.
// Cleanup of old versions (app/deploy) spares versions with a lease of a live process here, or of
// another host in the last three days.
#pragma once

#include <string>

#include "agent/base/event_loop.h"

namespace lockstep::agent {

class VersionLease {
 public:
  // Renewed by the loop. Does nothing if this program is not of a deployed version.
  explicit VersionLease(EventLoop& loop);
  ~VersionLease();  // given back
  VersionLease(const VersionLease&) = delete;
  VersionLease& operator=(const VersionLease&) = delete;

 private:
  void renew() const;
  std::string path_;
};

// Removes leases of dead processes and of earlier boots of this host, known by its name and
// /etc/machine-id, from all deployed versions. Leases of other hosts stay.
void removeDeadLeases();

}  // namespace lockstep::agent
