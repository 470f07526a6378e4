// NodeAccess: a connected node for background work: gRPC channels to its agent and to the
// supervisors of its runs. Channels heal by themselves while the node is reconnected.
//
// Threads: any. Owned by the session; valid as long as it lives.
#pragma once

#include <memory>
#include <stop_token>
#include <string>

#include "app/cluster/cluster_session.h"
#include "engine/base/status.h"

namespace grpc {
class Channel;
}

namespace lockstep::app {

class NodeAccess {
 public:
  virtual ~NodeAccess() = default;
  virtual const std::string& name() const = 0;
  // Waits until the node is connected. Errors: why it failed; kCancelled.
  virtual Result<NodeInventory> waitConnected(std::stop_token stop) = 0;
  // Returns the agent's channel. kUnavailable while the node is not connected.
  virtual Result<std::shared_ptr<grpc::Channel>> agent() = 0;
  // Returns a supervisor's channel, by its socket on the node.
  virtual Result<std::shared_ptr<grpc::Channel>> supervisor(const std::string& socketOnNode) = 0;
  // Returns the path of a unix socket here that leads to one on the node, until unforward() or the
  // node is disconnected. On this machine it is the socket itself.
  virtual Result<std::string> forward(const std::string& socketOnNode) = 0;
  virtual void unforward(const std::string& socketOnNode) = 0;
};

}  // namespace lockstep::app
