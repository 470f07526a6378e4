#include "app/slurm/job_node.h"

namespace lockstep::app {

JobNode::JobNode(std::unique_ptr<Host> login, std::int64_t job, int restarts, std::string node)
    : JobHost(std::move(login), slurmNodePrefix(job, node), true),
      job_(job),
      restarts_(restarts),
      node_(std::move(node)) {}

Result<JobState> JobNode::look(std::stop_token stop) {
  auto job = Slurm(through()).job(job_, std::move(stop));
  if (!job.ok()) {
    job.error().node = node_;
    return job.error();
  }
  setOver(job->phase == JobState::Phase::kOver || job->restarts > restarts_);
  return JobState(*std::move(job));
}

}  // namespace lockstep::app
