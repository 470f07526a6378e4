#include "agent/worker/rank_resources.h"

namespace lockstep::agent {

Result<RankResources> RankResources::open(const node::v1::WorkerStart& start,
                                          const plan::Plan& plan, WorkerLink& link) {
  RankResources out;
  LOCKSTEP_ASSIGN(out.backend, openBackend(start));
  LOCKSTEP_ASSIGN(out.hostGroups, RankGroups::form(start, plan.mesh, link, collectiveLimit(plan)));
  out.groups = out.hostGroups.groups();
  LOCKSTEP_ASSIGN(out.deviceGroups, joinDevices(start, plan, *out.backend, link, out.groups));
  out.pinned = std::make_unique<PinnedThread>(start);
  return out;
}

}  // namespace lockstep::agent
