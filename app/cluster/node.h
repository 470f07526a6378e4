// Node: one node of a session, with the thread that connects it and keeps it connected. Posts all
// changes to the inbox as NodeNews; does not access the session.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "app/cluster/node_access.h"
#include "app/core/home.h"
#include "app/deploy/node_link.h"
#include "lockstep/spec/v1/spec.pb.h"

namespace lockstep::node::v1 {
class HandshakeReply;
}
namespace lockstep::run::v1 {
class NodeSample;
}

namespace lockstep::app {

// What an agent tells of its node. It may tell anything: numbers that cannot be count as unknown.
// `asked` and `came`: when, by this machine's clock, it was asked and had answered.
NodeInventory inventoryOf(const node::v1::HandshakeReply& reply, Nanoseconds asked,
                          Nanoseconds came);
NodeLoad loadOf(const run::v1::NodeSample& sample);

// Changes of a node; empty members are unchanged.
struct NodeNews {
  std::optional<NodeState> phase;              // with `error` of this phase, absent: none
  std::uint64_t uploaded = 0, uploadSize = 0;  // of DEPLOYING: bytes
  std::optional<Error> error;
  std::optional<Message> detail;
  std::optional<NodeInventory> inventory;
  std::optional<NodeLoad> load;
};

class Node final : public NodeAccess {
 public:
  // `tell` is called on any thread and must not block. At each connection the node is cleaned up of
  // runs that were given up or deleted in the history of `home`, if there is one.
  Node(const spec::v1::NodeSpec& spec, NodeLinkOptions options, std::optional<Home> home,
       double sampleHertz, std::function<void(NodeNews)> tell);
  ~Node() override;

  void connect();
  void disconnect();
  void cleanUp();   // once more, if it is connected
  void beginEnd();  // asks the thread to end; the destructor waits for it

  const std::string& name() const override { return name_; }
  Result<NodeInventory> waitConnected(std::stop_token stop) override;
  Result<std::shared_ptr<grpc::Channel>> agent() override;
  Result<std::shared_ptr<grpc::Channel>> supervisor(const std::string& socketOnNode) override;
  Result<std::string> forward(const std::string& socketOnNode) override;
  void unforward(const std::string& socketOnNode) override;

 private:
  void run(const std::stop_token& end);
  // Runs one connection from start to loss. After an error the node does not reconnect.
  Status serve(const std::stop_token& stop);
  Result<NodeInventory> greet(grpc::Channel& channel, const std::stop_token& stop);
  Status watch(const std::shared_ptr<grpc::Channel>& channel, const std::stop_token& stop);
  void keepCleanedUp(const std::stop_token& end);
  Status awaitLink(NodeLink& link, const std::stop_token& stop);
  std::shared_ptr<NodeLink> link();
  std::shared_ptr<grpc::Channel> channelTo(const std::string& socket);
  Error away() const;
  void onLink(const LinkStatus& status);

  const std::string name_;
  const spec::v1::NodeSpec spec_;
  NodeLinkOptions options_;
  const std::optional<Home> home_;
  const double hertz_;
  const std::function<void(NodeNews)> tell_;

  std::mutex mutex_;
  std::condition_variable_any changed_;
  bool wanted_ = false;
  bool connected_ = false;
  bool cleanUpAsked_ = false;
  std::optional<Error> failure_;  // of the last wish
  NodeInventory inventory_;
  std::stop_source attempt_;
  std::shared_ptr<NodeLink> link_;  // made anew after a disconnect
  std::shared_ptr<grpc::Channel> agent_;
  std::map<std::string, std::shared_ptr<grpc::Channel>> channels_;  // by local socket
  std::atomic<bool> served_ = false;  // since the wish: a loss is mended, not told as a failure
  std::jthread thread_;
};

}  // namespace lockstep::app
