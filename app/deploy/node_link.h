// Link to one node, over SSH, on this machine, or of a scheduler's job: connects, deploys and
// starts the agent, and provides a local unix socket for gRPC to it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "app/deploy/deploy.h"
#include "app/ssh/host.h"
#include "app/ssh/prompter.h"
#include "engine/base/status.h"

namespace lockstep::spec::v1 {
class NodeSpec;
class PlacementSpec;
}  // namespace lockstep::spec::v1

namespace lockstep::app {

struct SshShared;

struct NodeLinkOptions {
  std::string configFile;                 // --ssh-config
  std::shared_ptr<SshPrompter> prompter;  // null: nothing is asked
  std::shared_ptr<SshShared> shared;      // by the links of a session; null: its own
  std::string bundleFolder;               // "": findBundle()
  bool copy = true;                       // false: nothing is copied to the node
  std::optional<AgentStart> start;        // of the agent, over SSH; absent: as chosen before
  std::shared_ptr<const spec::v1::PlacementSpec> placement;  // of a node of a scheduler's job
  std::string localAgent;  // lockstep-agent for local nodes; "": of the bundle, else beside us
  std::function<void(const LinkStatus&)> onState;  // over SSH; on the link's thread
  std::function<void(const DeployProgress&)> onProgress;
};

// Returns whether the node's agent may run as root: if the cluster names root as the SSH user, or
// if the studio itself runs as root, as in containers.
bool allowsRoot(const spec::v1::NodeSpec& node, bool studioIsRoot);

// Returns the path of the lockstep-agent beside this executable (a build folder), else of that of
// the bundle.
Result<std::string> findLocalAgent();

// Returns the login node of a scheduler, not connected yet.
std::unique_ptr<Host> loginHost(const spec::v1::PlacementSpec& placement,
                                const NodeLinkOptions& options);

class NodeLink {
 public:
  // A node without `ssh` is this machine. With a placement it is a node of a job, whose agent the
  // job starts, in a pod after it was sent there; once a job of Slurm is over, an agent on the
  // login node serves what it left.
  NodeLink(const spec::v1::NodeSpec& node, NodeLinkOptions options);
  ~NodeLink();
  NodeLink(const NodeLink&) = delete;
  NodeLink& operator=(const NodeLink&) = delete;

  // Connects, deploys if needed and starts the agent; if there is no package to deploy, starts the
  // version deployed last. Blocking; one call at a time, on any thread. Called again after success,
  // restarts an agent that has exited.
  Result<AgentInfo> ensureAgent(std::stop_token stop = {});
  // Returns the path of a local unix socket forwarded to `remote` on the node (the agent's or a
  // supervisor's), for gRPC as "unix:" + path. Idempotent. On local nodes, returns the socket
  // itself. Requires ensureAgent.
  Result<std::string> reach(const std::string& socketOnNode);
  void forget(const std::string& socketOnNode);

  const std::string& name() const;
  bool local() const;
  LinkStatus status() const;  // local nodes: connected
  Host* connection();         // null for local nodes
  void close();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::app
