// The forwards of a host: local unix sockets, and the connections made to them until
// each has a channel to the remote socket. Threads: any.
#pragma once

#include <poll.h>

#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "app/ssh/stream_request.h"
#include "app/ssh/wake.h"
#include "engine/base/status.h"
#include "engine/base/unique_fd.h"

namespace lockstep::app {

class SshForwards {
 public:
  // `wake` is notified of each change; it must live longer. `host` is for errors.
  SshForwards(std::string host, const Wake& wake) : host_(std::move(host)), wake_(wake) {}
  SshForwards(const SshForwards&) = delete;
  SshForwards& operator=(const SshForwards&) = delete;

  // Listens on a new socket in the folder; returns its path. Each connection gets a channel for
  // `request`. kCancelled after refuse().
  Result<std::string> listen(const std::string& folder, StreamRequest request);
  void stop(const std::string& path);
  void refuse();  // no new forwards, and no connections back from a lost session
  void clear();   // removes the sockets and closes the connections

  void addListeners(std::vector<pollfd>& fds) const;
  // Has each connection that has no channel attached to one. The object must live longer than the
  // session of the channels. Rests for a moment where a connection could not be accepted.
  using Attach = std::function<void(StreamRequest request, UniqueFd local)>;
  void attachCallers(const Attach& attach);
  void turnAway();  // closes the connections that have no channel

 private:
  struct Forward {
    std::string path;
    UniqueFd listener;
    StreamRequest request;
  };
  // A connection made to a forward that has no channel yet.
  struct Caller {
    std::string path;  // of the forward
    UniqueFd local;
    int losses = 0;  // of links while its channel was being opened
  };
  // Those given back first, then those in the backlogs, each with what it is to be wired to.
  std::vector<std::pair<Caller, StreamRequest>> takeCallers();

  const std::string host_;
  const Wake& wake_;
  mutable std::mutex mutex_;
  bool refusing_ = false;
  std::vector<Forward> forwards_;
  std::vector<Caller> callers_;  // given back by a lost session
};

}  // namespace lockstep::app
