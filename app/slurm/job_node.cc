#include "app/slurm/job_node.h"

namespace lockstep::app {

JobNode::JobNode(std::unique_ptr<Host> login, std::int64_t job, int restarts, std::string node)
    : login_(std::move(login)), job_(job), restarts_(restarts), node_(std::move(node)) {}

Result<SlurmJob> JobNode::look(std::stop_token stop) {
  auto job = Slurm(*login_).job(job_, std::move(stop));
  if (job.ok())
    over_ = job->phase == SlurmJob::Phase::kOver || job->restarts > restarts_;
  else
    job.error().node = node_;
  return job;
}

Status JobNode::connect(std::stop_token stop) { return login_->connect(std::move(stop)); }
Status JobNode::waitConnected(std::chrono::milliseconds timeout, std::stop_token stop) {
  return login_->waitConnected(timeout, std::move(stop));
}
LinkStatus JobNode::status() const { return login_->status(); }

Result<ExecResult> JobNode::exec(const std::string& command, ExecOptions options,
                                 std::stop_token stop) {
  if (over_) return login_->exec(command, std::move(options), std::move(stop));
  return login_->exec(onSlurmNode(job_, node_, "sh -c " + shellQuote(command)), std::move(options),
                      std::move(stop));
}

Result<UniqueFd> JobNode::openSubsystem(const std::string& name, std::stop_token) {
  return makeError(Code::kFailedPrecondition, "a node of a job has no subsystem {} of SSH", name);
}

Result<std::string> JobNode::forward(const std::string& remoteSocket,
                                     const std::string& bridgeCommand) {
  if (over_) return login_->forward(remoteSocket, bridgeCommand);
  return login_->forward({},
                         "exec " + onSlurmNode(job_, node_, "sh -c " + shellQuote(bridgeCommand)));
}
void JobNode::stopForward(const std::string& localSocket) { login_->stopForward(localSocket); }
void JobNode::close() { login_->close(); }

}  // namespace lockstep::app
