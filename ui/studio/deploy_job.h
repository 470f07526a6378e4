// DeployJob: the agents that are being copied to the nodes of a cluster, as one job of the status
// bar.
#pragma once

#include <QString>
#include <cstdint>
#include <functional>
#include <map>

#include "app/cluster/cluster_session.h"
#include "ui/studio/job_tracker.h"

namespace lockstep::ui {

class DeployJob {
 public:
  // `cancel` is called for a job that a person cancels.
  DeployJob(JobTracker& jobs, std::function<void()> cancel);
  ~DeployJob();
  DeployJob(const DeployJob&) = delete;
  DeployJob& operator=(const DeployJob&) = delete;

  void take(int node, const app::NodeStatus& status, const QString& title);
  void end();

 private:
  struct Upload {
    std::uint64_t done = 0, size = 0;  // bytes
    bool isUnderWay = false;
  };
  JobTracker& jobs_;
  std::function<void()> cancel_;
  JobTracker::JobId job_ = 0;      // 0: none
  std::map<int, Upload> uploads_;  // by node, since the job began
};

}  // namespace lockstep::ui
