// Host: where commands run with streams as their input and output, and sockets are reached through
// such commands: over SSH (SshConnection), on this machine (ThisMachine), or on a node of a job
// through a command of its scheduler (JobHost).
//
// Threads: all functions from any thread.
#pragma once

#include <chrono>
#include <stop_token>
#include <string>

#include "app/ssh/link_state.h"
#include "app/ssh/remote_command.h"
#include "engine/base/status.h"
#include "engine/base/unique_fd.h"

namespace lockstep::app {

class Host {
 public:
  Host() = default;
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;
  virtual ~Host() = default;

  // Connects, and connects again after a failure. Blocking. Errors: see SshConnection.
  virtual Status connect(std::stop_token stop = {}) = 0;
  // Until connected. Errors: why it failed; kDeadlineExceeded, kCancelled.
  virtual Status waitConnected(std::chrono::milliseconds timeout, std::stop_token stop = {}) = 0;
  virtual LinkStatus status() const = 0;

  // Runs a command through a shell. A command that ran is a result, whatever its exit status.
  // Errors: kUnavailable when not connected or lost meanwhile, kDeadlineExceeded and kCancelled
  // (it is ended), kResourceExhausted past outputLimit.
  virtual Result<ExecResult> exec(const std::string& command, ExecOptions options = {},
                                  std::stop_token stop = {}) = 0;
  // Runs a POSIX shell script (sh -s), whatever the shell; `input` must be empty.
  Result<ExecResult> script(const std::string& text, ExecOptions options = {},
                            std::stop_token stop = {});
  // kFailedPrecondition where there are none.
  virtual Result<UniqueFd> openSubsystem(const std::string& name, std::stop_token stop = {}) = 0;

  // Listens on a new local unix socket (0600, in a 0700 folder, path ≤ 100 bytes) and wires each
  // connection made to it to the socket there, by `bridgeCommand`, run with stdin and stdout as the
  // stream, where nothing else does. `remoteSocket` "": by the command alone. Stays until
  // stopForward or close.
  virtual Result<std::string> forward(const std::string& remoteSocket,
                                      const std::string& bridgeCommand) = 0;
  virtual void stopForward(const std::string& localSocket) = 0;

  // Ends what runs and listens. Idempotent.
  virtual void close() = 0;

  // Whether its files are this machine's.
  virtual bool here() const { return false; }
  // Whether files reach it only as the input of commands: there is no SFTP.
  virtual bool onlyCommands() const { return false; }
};

}  // namespace lockstep::app
