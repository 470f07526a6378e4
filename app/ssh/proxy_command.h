// A ProxyCommand of ssh_config: a program whose stdin and stdout are the transport to a host.
// Threads: one of its own drains stderr; why() and the destructor by one thread at a time.
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "app/ssh/wake.h"
#include "engine/base/status.h"
#include "engine/base/unique_fd.h"

namespace lockstep::app {

class ProxyCommand {
 public:
  // Runs "exec `command`" through $SHELL, or /bin/sh, as OpenSSH does, in a session of its own: it
  // has no terminal to ask on. `command` has its tokens expanded. Errors: of the system.
  static Result<std::unique_ptr<ProxyCommand>> start(const std::string& command);
  // Ends the command and all of its process group (SIGHUP, then SIGKILL), and reaps it; one that
  // cannot be killed is reaped in the background when it ends.
  ~ProxyCommand();
  ProxyCommand(const ProxyCommand&) = delete;
  ProxyCommand& operator=(const ProxyCommand&) = delete;

  UniqueFd takeTransport() { return std::move(transport_); }  // a stream socket
  // How the command ended, if it has, and the last it wrote to stderr; "" if there is neither.
  // Waits a moment for the command to end.
  Message why();

 private:
  ProxyCommand(pid_t pid, UniqueFd transport, UniqueFd errors);
  void drain();

  const pid_t pid_;
  const UniqueFd exited_;  // a pidfd
  UniqueFd transport_;
  const UniqueFd errors_;
  const Wake ending_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string tail_;      // of stderr
  bool drained_ = false;  // stderr has ended
  std::thread thread_;
};

}  // namespace lockstep::app
