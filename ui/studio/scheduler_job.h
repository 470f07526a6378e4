// The job of a scheduler that a run is on.
#pragma once

#include "app/cluster/allocation.h"
#include "ui/studio/workspace.h"

namespace lockstep::ui {

inline app::ClusterSessionOptions schedulerOptions(const Workspace& workspace) {
  app::ClusterSessionOptions options;
  options.home = workspace.home();
  options.sshConfig = workspace.sshConfig().toStdString();
  return options;
}

// Ends the job of the cluster's nodes, if they are of one, in the background. One that may be
// queued again is whose who waits for that, and ends by itself otherwise.
inline void endJob(Workspace& workspace, LiveCluster& live) {
  if (app::mayBeQueuedAgain(*live.session().cluster())) return;
  workspace.teardownPool().start(
      [cluster = live.session().cluster(), options = schedulerOptions(workspace)] {
        (void)app::endJob(*cluster, options, {});
      });
}

}  // namespace lockstep::ui
