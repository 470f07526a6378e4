#include "app/ssh/job_host.h"

#include "engine/base/shell_text.h"

namespace lockstep::app {

JobHost::JobHost(std::unique_ptr<Host> through, std::string prefix, bool filesOutliveJob)
    : through_(std::move(through)), prefix_(std::move(prefix)), filesOutliveJob_(filesOutliveJob) {}

Status JobHost::connect(std::stop_token stop) { return through_->connect(std::move(stop)); }
Status JobHost::waitConnected(std::chrono::milliseconds timeout, std::stop_token stop) {
  return through_->waitConnected(timeout, std::move(stop));
}
LinkStatus JobHost::status() const { return through_->status(); }

std::string JobHost::onNode(const std::string& command) const {
  return prefix_ + " sh -c " + shellQuote(command);
}

Result<ExecResult> JobHost::exec(const std::string& command, ExecOptions options,
                                 std::stop_token stop) {
  const bool here = over_ && filesOutliveJob_;
  return through_->exec(here ? command : onNode(command), std::move(options), std::move(stop));
}

Result<UniqueFd> JobHost::openSubsystem(const std::string& name, std::stop_token) {
  return makeError(Code::kFailedPrecondition, "a node of a job has no subsystem {} of SSH", name);
}

Result<std::string> JobHost::forward(const std::string& remoteSocket,
                                     const std::string& bridgeCommand) {
  if (over_ && filesOutliveJob_) return through_->forward(remoteSocket, bridgeCommand);
  return through_->forward({}, "exec " + onNode(bridgeCommand));
}
void JobHost::stopForward(const std::string& localSocket) { through_->stopForward(localSocket); }
void JobHost::close() { through_->close(); }

}  // namespace lockstep::app
