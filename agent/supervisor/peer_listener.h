// PeerListener: the port at which a run's other nodes reach the coordinator. A new connection gets
// limited time to begin a TLS handshake and to authenticate; the number of connections that have
// not authenticated is limited. Others keep no descriptors and no memory, and never reach gRPC
// where they speak no TLS.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "engine/base/status.h"
#include "engine/base/unique_fd.h"

namespace lockstep::agent {

struct PeerListenerLimits {
  // From the connection to authentication, in milliseconds.
  int greetingMs = 5000;
  // Connections that have not authenticated. Beyond, the oldest is closed.
  std::size_t unauthenticated = 128;
};

class PeerListener {
 public:
  // Receives a connection that begins a TLS handshake: non-blocking, nothing read from it. Called
  // on the listener's thread.
  using Accepted = std::function<void(UniqueFd connection)>;

  // Listens on a free port of a numeric address. Connections wait until begin(). Errors: those of
  // the system.
  static Result<std::unique_ptr<PeerListener>> open(const std::string& address,
                                                    PeerListenerLimits limits = {});
  ~PeerListener();  // closes the port and every connection that has not authenticated
  int port() const;
  void begin(Accepted accepted);
  // The connection from this peer, as gRPC writes it ("ipv4:127.0.0.1:80"), has authenticated: no
  // limit applies to it from here on. Thread-safe.
  void authenticated(const std::string& peer);

 private:
  struct State;
  explicit PeerListener(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::agent
