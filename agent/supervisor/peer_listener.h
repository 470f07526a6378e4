// PeerListener: the port at which a run's other nodes reach the coordinator. A new connection has
// limited time to begin a TLS handshake and to authenticate, and the number of unauthenticated
// connections is limited. Connections that do not send the whole first record of a TLS handshake
// never reach gRPC.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "engine/base/status.h"
#include "engine/base/unique_fd.h"

namespace lockstep::agent {

struct PeerListenerLimits {
  // From accept to authentication, in milliseconds.
  int greetingMs = 5000;
  // Number of unauthenticated connections. Beyond it, the oldest is closed.
  std::size_t unauthenticated = 128;
};

class PeerListener {
 public:
  // Receives a connection that has sent the first record of a TLS handshake: a non-blocking socket,
  // from which nothing has been read. Called on the listener's thread.
  using Accepted = std::function<void(UniqueFd connection)>;

  // Listens on a free port of a numeric address. Connections wait until begin(). Errors: system
  // errors.
  static Result<std::unique_ptr<PeerListener>> open(const std::string& address,
                                                    PeerListenerLimits limits = {});
  ~PeerListener();  // closes the port and every unauthenticated connection
  int port() const;
  void begin(Accepted accepted);
  // Marks the connection from this peer, in gRPC's notation ("ipv4:127.0.0.1:80"), as
  // authenticated: no limit applies to it from now on. Thread-safe.
  void authenticated(const std::string& peer);

 private:
  struct State;
  explicit PeerListener(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::agent
