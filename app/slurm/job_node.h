// A node of a Slurm job as a host: its commands run on the login node through srun, beside the
// steps of the job. Once the job is over they run on the login node itself, which shares the job's
// folder with the nodes: what the job left is read and removed there.
#pragma once

#include <memory>
#include <string>

#include "app/slurm/slurm.h"

namespace lockstep::app {

class JobNode final : public JobHost {
 public:
  // `restarts` of the job when it had the node. Restarted once more, it is over for this node.
  JobNode(std::unique_ptr<Host> login, std::int64_t job, int restarts, std::string node);

  Result<JobState> look(std::stop_token stop) override;

 private:
  const std::int64_t job_;
  const int restarts_;
  const std::string node_;
};

}  // namespace lockstep::app
