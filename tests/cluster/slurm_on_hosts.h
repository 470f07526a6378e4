// Slurm over hosts of their own: a controller on the studio's host, a daemon on each host, munge
// between them. Its commands are found on the studio's host and, over SSH, on each host. A requeued
// job waits for a credential's life, here 10 s in place of Slurm's usual 120. Needs root, slurm-wlm
// and munge.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/cluster/hosts.h"
#include "tests/support/sshd.h"

namespace lockstep::test {

class SlurmOnHosts {
 public:
  // Lines for the sshd of the hosts that Slurm is to run on.
  static std::string sshdConfig(const std::string& folder);
  // Null, with the reason to skip, where it cannot be run. Sets SLURM_CONF here.
  static std::unique_ptr<SlurmOnHosts> start(Hosts& hosts, int count, const std::string& folder,
                                             std::string* why);
  ~SlurmOnHosts();  // ends its daemons
  // Runs a command of Slurm on the studio's host; its exit status.
  int run(const std::vector<std::string>& argv, std::string* output = nullptr) const;
  // Returns Slurm's states of the jobs that it lists, one a line: "12 RUNNING".
  std::string jobs() const;

 private:
  explicit SlurmOnHosts(std::string folder) : folder_(std::move(folder)) {}
  void begin(const std::vector<std::string>& argv, const std::string& log);
  const std::string folder_;
  std::vector<pid_t> daemons_;
};

}  // namespace lockstep::test
