// An ssh-agent as IdentitiesOnly wants it: only the listed keys show, everything else passes.
// Protocol: draft-miller-ssh-agent. One thread of its own, from making to destruction.
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

class AgentFilter {
 public:
  AgentFilter(UniqueFd agent, std::vector<std::string> allowedBlobs);
  ~AgentFilter();
  UniqueFd takeClientEnd() { return std::move(client_); }

 private:
  void run();
  UniqueFd agent_, client_, server_;
  const std::vector<std::string> allowed_;
  std::thread thread_;
};

}  // namespace lockstep::app
