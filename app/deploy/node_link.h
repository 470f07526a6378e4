// One node as the studio reaches it, over SSH or on this machine: from nothing to a local unix
// socket on which the node's agent answers gRPC.
#pragma once

#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include "app/deploy/deploy.h"
#include "app/ssh/ssh_connection.h"
#include "engine/base/status.h"

namespace lockstep::spec::v1 {
class NodeSpec;
}

namespace lockstep::app {

struct NodeLinkOptions {
  std::string configFile;                 // --ssh-config
  std::shared_ptr<SshPrompter> prompter;  // null: nothing is asked
  std::string bundleFolder;               // "": findBundle()
  bool copy = true;                       // false: nothing is copied to the node
  std::string localAgent;  // lockstep-agent for local nodes; "": of the bundle, else beside us
  std::function<void(const LinkStatus&)> onState;  // SSH nodes; on the link's thread
  std::function<void(const DeployProgress&)> onProgress;
};

class NodeLink {
 public:
  // A node without `ssh` is this machine.
  NodeLink(const spec::v1::NodeSpec& node, NodeLinkOptions options);
  ~NodeLink();
  NodeLink(const NodeLink&) = delete;
  NodeLink& operator=(const NodeLink&) = delete;

  // Blocking, on any thread, one at a time: connects, deploys where needed, starts the agent. Where
  // there is no package to deploy, the version deployed last is started.
  // Again after a success: starts the agent anew where it has gone.
  Result<AgentInfo> ensureAgent(std::stop_token stop = {});
  // A local unix socket that leads to one on the node (the agent's or a supervisor's): for gRPC,
  // "unix:" + path. Asking twice for one socket gives the same path. Local nodes: itself.
  // After ensureAgent.
  Result<std::string> reach(const std::string& socketOnNode);
  void forget(const std::string& socketOnNode);

  const std::string& name() const;
  bool local() const;
  LinkStatus status() const;    // local nodes: connected
  SshConnection* connection();  // null for local nodes
  void close();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::app
