// The communicators of a rank along each axis of the mesh.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "agent/worker/worker_link.h"
#include "engine/base/status.h"
#include "engine/cluster/mesh.h"
#include "engine/comm/communicator.h"
#include "engine/plan/plan.h"
#include "engine/plan/wait_limit.h"
#include "engine/runtime/device_groups.h"
#include "engine/runtime/groups.h"

namespace lockstep::agent {

// Returns the bytes of shared memory for all groups of a mesh on one node; 0 if there are none.
Result<std::int64_t> sharedMemoryBytes(const cluster::Mesh& mesh);

// Returns the plan's mesh if it has this many ranks, else a mesh with one axis data.
cluster::Mesh meshFor(const plan::Plan& plan, int ranks);

// A rank's communicators, one for each axis of more than one rank.
class RankGroups {
 public:
  // Errors: those of the first communicator that cannot be formed.
  static Result<RankGroups> form(const node::v1::WorkerStart& start, const cluster::Mesh& mesh,
                                 WorkerLink& link, Nanoseconds limit = plan::kCollectiveLimit);
  const runtime::Groups& groups() const { return groups_; }

 private:
  std::vector<std::unique_ptr<comm::Communicator>> owned_;
  runtime::Groups groups_;
};

// Restricts NCCL in this process to one network interface: the given one, that of `address`, or
// loopback if both are empty. Overrides the environment. Errors: kFailedPrecondition naming the
// address or the interface.
Status confineNccl(const std::string& address, const std::string& interface);

// Forms the device communicators (NCCL), if every rank has a device and they can be formed, and
// registers them with `groups`. The backend outlives them.
Result<runtime::DeviceGroups> joinDevices(const node::v1::WorkerStart& start,
                                          const plan::Plan& plan, backends::Backend& backend,
                                          WorkerLink& link, runtime::Groups& groups);

}  // namespace lockstep::agent
