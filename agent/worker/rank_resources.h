// What a rank trains with.
#pragma once

#include <memory>

#include "agent/host/cores.h"
#include "agent/worker/rank_groups.h"
#include "agent/worker/worker_link.h"
#include "engine/backends/backend.h"
#include "engine/plan/plan.h"
#include "engine/runtime/device_groups.h"
#include "engine/runtime/groups.h"

namespace lockstep::agent {

struct RankResources {
  std::unique_ptr<backends::Backend> backend;
  RankGroups hostGroups;
  runtime::Groups groups;  // those of the host and of devices
  runtime::DeviceGroups deviceGroups;
  std::unique_ptr<PinnedThread> pinned;  // keeps the opening thread on its cores

  // Opens the backend, forms the groups of the plan's mesh together with the other ranks, and pins
  // the thread. Errors: those of openBackend(), RankGroups::form() and joinDevices().
  static Result<RankResources> open(const node::v1::WorkerStart& start, const plan::Plan& plan,
                                    WorkerLink& link);
};

}  // namespace lockstep::agent
