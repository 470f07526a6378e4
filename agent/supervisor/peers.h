// Peers: what the supervisors of one run say to each other, over mutual TLS with keys made for the
// run. The coordinator serves; every other node holds one outgoing stream to it and takes it up
// again when it breaks. Identity is the URI in the certificate's subject alternative names,
// lockstep://run/<run>/node/<node>/generation/<g>; both sides check it, and every message's run and
// generation. Handlers are called on the loop's thread; none after the object's destructor began.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/base/event_loop.h"
#include "engine/base/status.h"
#include "lockstep/node/v1/node.pb.h"

namespace lockstep::agent {

std::string peerIdentity(const std::string& run, const std::string& node, int generation);

// The numeric address of this node for its peers: `address`, or the interface's.
Result<std::string> peerAddress(const spec::v1::NodeSpec& node);

class PeerServer {
 public:
  struct Handlers {
    std::function<void(const std::string& node, const node::v1::PeerHello&)> onJoin;
    std::function<void(const std::string& node)> onLeave;
    std::function<void(const std::string& node, const node::v1::FromPeer&)> onMessage;
  };
  // At a free port of `address`.
  static Result<std::unique_ptr<PeerServer>> start(EventLoop& loop, const std::string& address,
                                                   const node::v1::PrepareRequest& request,
                                                   Handlers handlers);
  ~PeerServer();
  const std::string& address() const { return address_; }  // host:port
  // To a node that has joined; nothing where it has not. Sets run and generation. Any thread.
  void send(const std::string& node, node::v1::ToPeer message);

 private:
  struct State;
  explicit PeerServer(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
  std::string address_;
};

class PeerClient {
 public:
  struct Handlers {
    std::function<void()> onJoin;  // the stream is up (again): say where we are
    std::function<void(const std::string& why)> onLost;  // once per break; tried again meanwhile
    std::function<void(const Error&)> onRefused;         // for good
    std::function<void(const node::v1::ToPeer&)> onMessage;
  };
  PeerClient(EventLoop& loop, const std::string& address, const node::v1::PrepareRequest& request,
             Handlers handlers);
  ~PeerClient();
  // Lost while there is no stream: onJoin says everything again. Sets run and generation.
  void send(node::v1::FromPeer message);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace lockstep::agent
