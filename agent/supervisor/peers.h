// Peers: communication between the supervisors of a run, over mutual TLS with keys made for the
// run. The coordinator is the server; every other node keeps one stream to it and reconnects when
// it breaks. Nodes that may take over from the coordinator, or whose checkpoints are copied or
// evaluated, are servers too.
//
// A node's identity is the URI in the subject alternative names of its certificate:
// lockstep://run/<run>/node/<node>/generation/<g>, where g is the first generation. Both sides
// check the identity, and the run of every message. A client drops messages of earlier generations.
// Handlers are called on the loop's thread, and not after destruction has begun.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <grpcpp/channel.h>

#include "agent/base/event_loop.h"
#include "engine/base/status.h"
#include "lockstep/node/v1/node.pb.h"

namespace lockstep::agent {

std::string peerIdentity(const std::string& run, const std::string& node, int generation);

// Returns the numeric address of this node for its peers: `address`, or the interface's.
Result<std::string> peerAddress(const spec::v1::NodeSpec& node);

// Returns a channel to the PeerServer of node `server`, whose identity it checks.
std::shared_ptr<grpc::Channel> peerChannel(const node::v1::PrepareRequest& request,
                                           const std::string& server, const std::string& address);

class PeerServer {
 public:
  struct Handlers {
    std::function<void(const std::string& node, const node::v1::PeerHello&)> onJoin;
    std::function<void(const std::string& node)> onLeave;
    std::function<void(const std::string& node, const node::v1::FromPeer&)> onMessage;
  };
  struct Files {
    std::string checkpoints;  // folder
    std::string model;        // path; "": none
  };
  // Listens on a free port of `address`. Sends files of checkpoints, and the trained model. The
  // generation is the request's, with all of its nodes.
  static Result<std::unique_ptr<PeerServer>> start(EventLoop& loop, const std::string& address,
                                                   const node::v1::PrepareRequest& request,
                                                   Files files, Handlers handlers);
  ~PeerServer();
  const std::string& address() const { return address_; }  // host:port
  // From now on messages carry this generation, and files of checkpoints are sent only to these
  // nodes, if they ask in this generation. Breaks off files that are being sent. Thread-safe.
  void setGeneration(int generation, const std::vector<std::string>& members);
  // Sends to a node, if it has joined. Sets run and generation. Thread-safe.
  void send(const std::string& node, node::v1::ToPeer message);
  void drop(const std::string& node);  // ends its stream, so that it has to join again

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
  // `server` is the node at `address`; `ownAddress`, if not "", where this node listens.
  PeerClient(EventLoop& loop, const std::string& server, const std::string& address,
             const std::string& ownAddress, const node::v1::PrepareRequest& request, int generation,
             Handlers handlers);
  ~PeerClient();
  void setGeneration(int generation);  // of what is sent from here on
  // Drops the message while there is no stream; onJoin resends the state. Sets run and generation.
  void send(node::v1::FromPeer message);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace lockstep::agent
