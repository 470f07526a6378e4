// What goes wrong with nodes and data, provoked for real, for everything that shows errors: the
// command line and the studio's window are held against the same lists.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/support/sshd.h"

namespace lockstep::test {

// One host "n1" behind a real sshd, which cannot be used as it stands.
class SshTrouble {
 public:
  static const std::vector<std::string>& all();
  // Null, with the reason to skip, where it cannot be provoked.
  static std::unique_ptr<SshTrouble> make(const std::string& name, std::string* why);
  ~SshTrouble();
  std::string clusterFile() const { return folder_ / "cluster.yaml"; }
  std::string sshConfig() const { return folder_ / "ssh_config"; }
  const std::string& bundle() const { return bundle_; }  // for LOCKSTEP_BUNDLE
  // What the error says: its cause and what to do.
  const std::vector<std::string>& says() const { return says_; }
  // No process of the node's work folder, no run in it, nothing half copied.
  bool nothingStays() const;

 private:
  SshTrouble() = default;
  bool provoke(const std::string& name, std::string* why);
  void scriptedAgent(const std::string& script, const std::string& glibc);

  class OtherProtocol;  // an agent of another time
  TempFolder folder_;
  std::unique_ptr<Sshd> server_;
  std::unique_ptr<OtherProtocol> other_;
  std::string bundle_;
  std::vector<std::string> says_;
  bool mounted_ = false;
};

// Two nodes on this machine, "n1" and "n2", of which n2 cannot take the run of an example.
class RunTrouble {
 public:
  static const std::vector<std::string>& all();
  // `folder` for files and work folders; it must outlive this. Null, with the reason to skip, where
  // it cannot be provoked.
  static std::unique_ptr<RunTrouble> make(const std::string& name, const std::string& folder,
                                          std::string* why);
  ~RunTrouble();
  std::string clusterFile() const { return folder_ + "/cluster.yaml"; }
  const std::vector<std::string>& says() const { return says_; }
  bool noRunStays() const;  // on either node

 private:
  RunTrouble() = default;
  std::string folder_;
  std::vector<std::string> says_;
  bool mounted_ = false;
};

// Processes whose command line names the path.
std::vector<pid_t> processesNaming(const std::string& path);

}  // namespace lockstep::test
