// A node of a Slurm job as a host: its commands run on the login node through srun, beside the
// steps of the job. Once the job is over they run on the login node itself, which shares the job's
// folder with the nodes: what the job left is read and removed there.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "app/slurm/slurm.h"
#include "app/ssh/host.h"

namespace lockstep::app {

class JobNode final : public Host {
 public:
  // `restarts` of the job when it had the node. Restarted once more, it is over for this node.
  JobNode(std::unique_ptr<Host> login, std::int64_t job, int restarts, std::string node);

  // Asks Slurm for the job's state, which decides where commands run from now on.
  Result<SlurmJob> look(std::stop_token stop);
  bool isOver() const { return over_; }

  Status connect(std::stop_token stop = {}) override;
  Status waitConnected(std::chrono::milliseconds timeout, std::stop_token stop = {}) override;
  LinkStatus status() const override;
  Result<ExecResult> exec(const std::string& command, ExecOptions options = {},
                          std::stop_token stop = {}) override;
  Result<UniqueFd> openSubsystem(const std::string& name, std::stop_token stop = {}) override;
  Result<std::string> forward(const std::string& remoteSocket,
                              const std::string& bridgeCommand) override;
  void stopForward(const std::string& localSocket) override;
  void close() override;

 private:
  const std::unique_ptr<Host> login_;
  const std::int64_t job_;
  const int restarts_;
  const std::string node_;
  std::atomic<bool> over_ = false;
};

}  // namespace lockstep::app
