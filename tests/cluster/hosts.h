// Several hosts on one machine, and faults between them: each host has its own network, process,
// mount, host-name and IPC namespaces, its own /dev/shm and its own sshd on its own address, joined
// by a bridge that lives in one more namespace, the studio's host. Nothing is reachable from
// outside. Needs root.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/support/sshd.h"

namespace lockstep::test {

class Hosts {
 public:
  static constexpr int kMost = 253;  // that have an address beside the bridge's
  // Hosts n1 … nCOUNT, up. Null, with the reason to skip, where namespaces cannot be made.
  // `apart`: each has a boot id of its own, so that they are taken for several machines.
  static std::unique_ptr<Hosts> start(int count, const std::string& folder,
                                      const std::string& clientKey, std::string* why,
                                      const std::string& sshdConfig = "", bool apart = false);
  ~Hosts();  // ends all processes in the hosts, removes the namespaces
  // The calling thread, and all threads and processes it starts from now on, are on the studio's
  // host.
  bool enter() const;
  std::string address(int host) const;  // host from 1
  Sshd& sshd(int host) { return *sshd_[static_cast<std::size_t>(host - 1)]; }
  // Host n1 … with addresses and ports; all keys known in `knownHosts`, which is written.
  std::string sshConfig(const std::string& knownHosts, const std::string& identityFile) const;

  bool cut(int host);  // its cable, unnoticed by TCP
  bool heal(int host);
  bool cutOneWay(int from, int to);  // frames from one to the other are dropped; heal with mend
  bool mend(int from, int to);
  bool limitRate(int host, int megabitPerSecond);  // both ways
  bool unlimitRate(int host);
  // Mounts a folder at another path on a host, for its processes alone. Unmounting succeeds while
  // the volume is in use.
  bool mount(int host, const std::string& folder, const std::string& at);
  bool unmount(int host, const std::string& at);
  // Stops every process of the host, as where its machine is suspended, or lets them go on. How
  // many there were.
  int freeze(int host, bool on);
  void kill(int host);  // power loss: every process at once
  bool boot(int host);  // after kill; same address, port and host key
  // Runs a program inside a host (its network and host name); its exit status.
  int run(int host, std::vector<std::string> argv, std::string* output = nullptr) const;

 private:
  Hosts() = default;
  std::string netns(int host) const;  // 0: the bridge's
  bool ip(std::vector<std::string> arguments) const;
  // Runs a program with the mounts that a host's processes have.
  bool amongMounts(int host, std::vector<std::string> argv);
  std::vector<pid_t> processes(int host) const;
  std::string prefix_, folder_;
  int made_ = 0;  // namespaces, the bridge's included
  std::vector<std::unique_ptr<Sshd>> sshd_;
};

}  // namespace lockstep::test
