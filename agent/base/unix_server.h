// A gRPC server on a unix socket for this user's processes only: an accept loop checks the peer's
// uid before gRPC gets the connection.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include "engine/base/clock.h"
#include "engine/base/status.h"
#include "engine/base/unique_fd.h"

namespace grpc {
class Service;
}

namespace lockstep::agent {

class UnixServer {
 public:
  // Replaces a stale socket at `path`. The caller holds the lock that proves it stale.
  static Result<std::unique_ptr<UnixServer>> start(const std::string& path, grpc::Service& service);
  ~UnixServer();  // removes the socket, cancels calls in progress, waits for their handlers

  // Stops accepting connections and removes the socket; open connections stay.
  void close();
  int connections() const;  // open now

 private:
  struct State;
  explicit UnixServer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Listens at a unix socket of mode 0600, with close-on-exec; replaces what is at `path`. Who
// accepts a connection checks isOwnUser().
Result<UniqueFd> listenUnix(const std::string& path, int backlog);
// Returns whether the other end is a process of this user. `pid`, if not null, receives its number.
bool isOwnUser(int fd, pid_t* pid);

// Connects to a unix socket, with close-on-exec. `peer`, if not null, receives the pid of the other
// process. kPermissionDenied if it is another user's.
Result<int> connectUnix(const std::string& path, pid_t* peer);

}  // namespace lockstep::agent
