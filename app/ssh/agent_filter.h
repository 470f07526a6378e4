// An ssh-agent of which only the listed keys show, as for IdentitiesOnly, and with certificates
// that it does not hold itself; everything else passes. Protocol: draft-miller-ssh-agent. It
// has a thread, which ends with it.
#pragma once

#include <string>
#include <thread>
#include <vector>

#include "engine/base/unique_fd.h"

namespace lockstep::app {

// A stream to the agent's socket; absent where it does not answer.
UniqueFd connectToAgent(const std::string& path);
// The public keys the agent holds, as the binary blobs of the protocol; nothing on trouble.
std::vector<std::string> agentKeys(int agent);

struct AgentIdentity {
  std::string blob;  // a key that the agent holds, or a certificate for one
  std::string key;   // of the agent's, which signs
};

class AgentFilter {
 public:
  // Shows `shown` in this order.
  AgentFilter(UniqueFd agent, std::vector<AgentIdentity> shown);
  ~AgentFilter();
  UniqueFd takeClientEnd() { return std::move(client_); }

 private:
  void run();
  std::string identities(const std::string& answer) const;
  std::string signRequest(const std::string& request) const;
  UniqueFd agent_, client_, server_;
  const std::vector<AgentIdentity> shown_;
  std::thread thread_;
};

}  // namespace lockstep::app
