// The agents that serve a workdir on this host, one per version in use.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "agent/base/paths.h"

namespace lockstep::agent {

struct ServingAgent {
  std::string socket, lock;
  int pid = 0;
};

std::optional<ServingAgent> findAgent(const Workdir& workdir, std::string_view version);
std::vector<ServingAgent> servingAgents(const Workdir& workdir);

}  // namespace lockstep::agent
