// A gRPC server on a unix socket, reached by this user's processes only: our own accept loop checks
// the peer's uid before gRPC sees the connection.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include "engine/base/clock.h"
#include "engine/base/status.h"

namespace grpc {
class Service;
}

namespace lockstep::agent {

class UnixServer {
 public:
  // Takes the place of a stale socket at `path`; the caller holds the lock that says it is stale.
  static Result<std::unique_ptr<UnixServer>> start(const std::string& path, grpc::Service& service);
  ~UnixServer();  // removes the socket, cancels calls in progress, waits for their handlers

  // Accepts no more connections and removes the socket; those that are there go on.
  void close();
  int connections() const;  // open now

 private:
  struct State;
  explicit UnixServer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Both ends of a unix connection, with close-on-exec. `peer`, where not null, receives the pid of
// the process at the other end. kPermissionDenied if that is another user's.
Result<int> connectUnix(const std::string& path, pid_t* peer);

}  // namespace lockstep::agent
