// A launch on nodes that a scheduler has allocated.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "app/cluster/allocation.h"
#include "app/runs/preview.h"

namespace lockstep::app {

// Returns whether a scheduler has yet to allocate the nodes.
bool awaitsAllocation(const LaunchRequest& request);

// Returns the request on the allocated cluster. Checkpoints go to a folder of the job, which its
// nodes share, unless the spec names another: they are read on whichever nodes come next. Pods
// without a volume share none.
LaunchRequest onAllocated(LaunchRequest request,
                          std::shared_ptr<const spec::v1::ClusterSpec> cluster);

// Returns the launch that continues `run` in the next start of its job, or in the job that replaces
// it: for a cluster that asks for a requeue, after the scheduler's notice or a preemption. Returns
// nothing if the run ended for other reasons, or cannot be resumed. A program of the user's own
// continues from what it has saved. The nodes of the launch have yet to be allocated again.
std::optional<LaunchRequest> continuationOf(const LaunchRequest& ran, const std::string& run,
                                            const JobOutlook& job,
                                            const std::string& historyFolder);

}  // namespace lockstep::app
