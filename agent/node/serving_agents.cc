#include "agent/node/serving_agents.h"

#include <unistd.h>

#include <filesystem>

#include "agent/base/run_folder.h"
#include "agent/base/unix_server.h"
#include "engine/base/list_folder.h"

namespace lockstep::agent {
namespace {

// Facts of the process that holds the lock and answers at the socket.
std::optional<ServingAgent> agentAt(ServingAgent agent) {
  if (!isLocked(agent.lock)) return std::nullopt;
  pid_t peer = 0;
  const auto fd = connectUnix(agent.socket, &peer);
  if (!fd.ok()) return std::nullopt;
  close(*fd);
  agent.pid = peer;
  return peer > 0 ? std::optional(std::move(agent)) : std::nullopt;
}

}  // namespace

std::optional<ServingAgent> findAgent(const Workdir& workdir, std::string_view version) {
  return agentAt({workdir.agentSocket(version), workdir.agentLock(version), 0});
}

std::vector<ServingAgent> servingAgents(const Workdir& workdir) {
  std::vector<ServingAgent> out;
  for (const std::filesystem::path& path : listFolder(workdir.runtime)) {
    if (path.extension() != ".lock" || !path.filename().string().starts_with("agent")) continue;
    std::filesystem::path socket = path;
    socket.replace_extension(".sock");
    if (auto agent = agentAt({socket.string(), path.string(), 0})) out.push_back(std::move(*agent));
  }
  return out;
}

}  // namespace lockstep::agent
