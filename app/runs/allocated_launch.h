// A launch on nodes that a scheduler has allocated.
#pragma once

#include <memory>

#include "app/runs/preview.h"

namespace lockstep::app {

// Returns the request on the allocated cluster. Checkpoints go to a folder of the job, which its
// nodes share, unless the spec names another: they are read on whichever nodes the job has next.
LaunchRequest onAllocated(LaunchRequest request,
                          std::shared_ptr<const spec::v1::ClusterSpec> cluster);

// Refuses what cannot continue after the scheduler has queued the job again.
Status checkRequeue(const LaunchRequest& request);

}  // namespace lockstep::app
