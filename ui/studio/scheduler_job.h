// The job of a scheduler that a run is on.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "app/cluster/allocation.h"
#include "app/runs/allocated_launch.h"
#include "ui/studio/workspace.h"

namespace lockstep::ui {

inline app::ClusterSessionOptions schedulerOptions(const Workspace& workspace) {
  app::ClusterSessionOptions options;
  options.home = workspace.home();
  options.sshConfig = workspace.sshConfig().toStdString();
  return options;
}

// Ends the job of the cluster's nodes, if they are of one, in the background.
inline void endJob(Workspace& workspace, std::shared_ptr<const spec::v1::ClusterSpec> cluster) {
  workspace.teardownPool().start(
      [cluster = std::move(cluster), options = schedulerOptions(workspace)] {
        (void)app::endJob(*cluster, options, {});
      });
}

// After the end of `run`: returns the launch that continues it, where its job is queued again, else
// ends the job. Blocking.
inline std::optional<app::LaunchRequest> continueOrEndJob(
    const app::LaunchRequest& ran, const std::string& run,
    const app::ClusterSessionOptions& options) {
  if (const auto job = app::outlookOf(*ran.cluster, options, {}); job.ok())
    if (auto next = app::continuationOf(ran, run, *job, options.home.historyFolder())) return next;
  (void)app::endJob(*ran.cluster, options, {});
  return {};
}

}  // namespace lockstep::ui
