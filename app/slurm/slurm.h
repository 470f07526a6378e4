// Slurm's commands on a host: sbatch, squeue, scontrol and scancel, version 22.05 or newer. Their
// output is asked for in formats of our own and checked. Errors name the command, its exit status
// and what it said: kFailedPrecondition (it refused, or is not there), kDataLoss (output that is
// not understood), kUnavailable, kDeadlineExceeded (the host or the controller is silent),
// kCancelled.
#pragma once

#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "app/ssh/job_host.h"
#include "engine/base/status.h"

namespace lockstep::app {

struct SlurmJob : JobState {
  std::string nodes;  // Slurm's list: "n[1-2]"
};

struct SlurmNode {
  std::string name;
  std::string address;  // where its daemon listens: a name or address
  int cpus = 0;         // allocated to the job
};

class Slurm {
 public:
  explicit Slurm(Host& host) : host_(host) {}

  // Submits a batch script in `folder`, which is made if absent; returns the job's number.
  Result<std::int64_t> submit(const std::string& script, const std::string& folder,
                              std::stop_token stop);
  Result<SlurmJob> job(std::int64_t job, std::stop_token stop);
  // Returns its place among the queued jobs of its partition that this account may see, from 1;
  // nullopt if it is not queued.
  Result<std::optional<int>> position(std::int64_t job, std::stop_token stop);
  // Returns the nodes of a running job, in the order of its tasks.
  Result<std::vector<SlurmNode>> nodes(std::int64_t job, std::stop_token stop);
  // Ends exactly this job. Idempotent.
  Status cancel(std::int64_t job, std::stop_token stop);

 private:
  Result<std::string> run(const std::string& command, const std::string& input,
                          std::stop_token stop);
  Host& host_;
};

// Parse what the commands print. Errors: kDataLoss.
Result<std::int64_t> parseJobNumber(std::string_view printed);  // of sbatch --parsable
Result<SlurmJob> parseJob(
    std::string_view printed);  // of squeue, "%T|%r|%N|%S" and a line of RestartCnt
struct SlurmNodeGroup {
  std::string nodes;  // Slurm's list
  int cpus = 0;       // on each
};
Result<std::vector<SlurmNodeGroup>> parseNodeGroups(std::string_view printed);  // of scontrol -d
// Names and addresses, of scontrol --oneliner show node.
Result<std::vector<SlurmNode>> parseNodes(std::string_view printed);
Result<std::vector<std::string>> parseNames(std::string_view printed);  // one a line

// Returns what runs a command, whose words follow, on a node of a running job beside its steps.
// Standard input and output are passed on unchanged.
std::string slurmNodePrefix(std::int64_t job, const std::string& node);

}  // namespace lockstep::app
