// The groups of ranks along each axis of a mesh, as processes of a run form them.
#pragma once

#include <memory>
#include <vector>

#include "agent/worker/worker_link.h"
#include "engine/base/status.h"
#include "engine/cluster/mesh.h"
#include "engine/comm/communicator.h"
#include "engine/plan/plan.h"
#include "engine/runtime/device_groups.h"
#include "engine/runtime/groups.h"

namespace lockstep::agent {

// One memory for all groups of a mesh whose ranks are on one node; 0 bytes where there are none.
Result<std::int64_t> sharedMemoryBytes(const cluster::Mesh& mesh);

// How long a rank waits for a peer that makes no progress, the same on all: a peer in a slow step
// is not frozen.
inline constexpr Nanoseconds kCollectiveLimit = 30'000'000'000;
Nanoseconds collectiveLimit(const plan::Plan& plan);

// The plan's mesh where it is for so many ranks, else one axis data of them.
cluster::Mesh meshFor(const plan::Plan& plan, int ranks);

// A rank's communicators, one an axis of several ranks.
class RankGroups {
 public:
  // Errors: what comm says of the first group that does not form.
  static Result<RankGroups> form(const node::v1::WorkerStart& start, const cluster::Mesh& mesh,
                                 WorkerLink& link, Nanoseconds limit = kCollectiveLimit);
  const runtime::Groups& groups() const { return groups_; }

 private:
  std::vector<std::unique_ptr<comm::Communicator>> owned_;
  runtime::Groups groups_;
};

// Those of the ranks' devices, where each rank of the run has one and they can be formed; `groups`
// is told of them. The backend outlives them.
Result<runtime::DeviceGroups> joinDevices(const node::v1::WorkerStart& start,
                                          const plan::Plan& plan, backends::Backend& backend,
                                          WorkerLink& link, runtime::Groups& groups);

}  // namespace lockstep::agent
