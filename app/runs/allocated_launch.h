// A launch on nodes that a scheduler has allocated.
#pragma once

#include <memory>

#include "app/runs/preview.h"

namespace lockstep::app {

// Returns whether a scheduler has yet to allocate the nodes.
bool awaitsAllocation(const LaunchRequest& request);

// Returns the request on the allocated cluster. Checkpoints go to a folder of the job, which its
// nodes share, unless the spec names another: they are read on whichever nodes come next. Pods
// without a volume share none.
LaunchRequest onAllocated(LaunchRequest request,
                          std::shared_ptr<const spec::v1::ClusterSpec> cluster);

// For a launch that nobody continues after the scheduler has queued the job again. Errors:
// kFailedPrecondition if the cluster asks for that.
Status checkRequeue(const LaunchRequest& request);

}  // namespace lockstep::app
