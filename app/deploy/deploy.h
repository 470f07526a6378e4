// Uploads a bundle to a node and starts its agent.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>

#include "app/deploy/agent_start.h"
#include "app/deploy/bundle.h"
#include "app/ssh/host.h"
#include "engine/base/status.h"

namespace lockstep::app {

// Error::what of kNotFound for a node without a deployed agent.
inline constexpr const char* kNoAgentYet = "the agent is not on this node yet";

struct DeployProgress {
  std::uint64_t bytesDone = 0;
  std::uint64_t bytesTotal = 0;  // 0: the version was there already
};

struct DeployOptions {
  std::string node;                 // for errors
  std::string workdir;              // on the node; "": $HOME/.lockstep there
  bool copy = true;                 // false: only checks; changes nothing on the node
  bool allowRoot = false;           // the agent may run as root
  std::optional<AgentStart> start;  // absent: as chosen before, at first detached
  bool leavesIdle = false;          // the agent leaves after ten minutes without client or run
  std::function<void(const DeployProgress&)> onProgress;  // on the calling thread
  std::stop_token stop;
};

struct Deployed {
  std::string workdir;  // absolute, on the node
  std::string folder;   // <workdir>/versions/<version>
  bool uploaded = false;
};

// Checks CPU, glibc and free disk space, uploads to a temporary folder, verifies all hashes,
// renames, and removes old versions (keeps the newest two and those in use on any host).
// Idempotent; concurrent deploys succeed. Leaves nothing behind on failure unless the link is lost;
// a deploy an hour later cleans that up. Errors: kFailedPrecondition (CPU, glibc, a tool missing),
// kResourceExhausted (needed and free bytes), kPermissionDenied, kUnavailable, kDataLoss (hashes),
// kCancelled; without `copy` kNotFound if the version is not there.
Result<Deployed> deploy(Host& host, const Bundle& bundle, const DeployOptions& options);
// Returns the version deployed last. kNotFound if there is none.
Result<Deployed> findDeployed(Host& host, const DeployOptions& options);

struct AgentInfo {
  std::string socket;   // unix socket, on the node
  std::string version;  // as the agent says
  std::int64_t pid = 0;
  std::string reachedAt;  // address of the node that SSH arrived at; "": this machine
};

// Runs `<folder>/lockstep-agent serve --workdir W --detach`, which prints one JSON line
// {"socket": "…", "version": "…", "pid": n} for the agent it started or found serving; where that
// is chosen, in a unit of systemd's user manager. Errors: kFailedPrecondition.
Result<AgentInfo> startAgent(Host& host, const Deployed& deployed, const DeployOptions& options);
// Waits for the agent that something else starts in the workdir, for at most half a minute. Errors:
// kFailedPrecondition.
Result<AgentInfo> awaitAgent(Host& host, const Deployed& deployed, const DeployOptions& options);
// Starts an agent on this machine without SSH. `executable` is a lockstep-agent of a bundle or a
// build. It exits after ten idle minutes.
Result<AgentInfo> startLocalAgent(const std::string& executable, const DeployOptions& options);

// Returns the command that connects stdin and stdout to a unix socket on the node.
std::string bridgeCommand(const Deployed& deployed, const std::string& socket);

}  // namespace lockstep::app
