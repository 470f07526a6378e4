// What is asked of an SSH session: a channel wired to a local stream socket.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "engine/base/status.h"
#include "engine/base/unique_fd.h"

namespace lockstep::app {

// The target of a channel.
struct StreamRequest {
  enum class Kind { kExec, kSubsystem, kTcp, kUnix };
  Kind kind = Kind::kExec;
  std::string what;    // command, subsystem, host, or socket path
  int port = 0;        // of kTcp
  std::string bridge;  // of kUnix: the command tried where forwarding fails; "": none
  // Takes the local end back, unread, if the session ends before the channel is open; null: it is
  // closed. On any thread, with no lock of the session held.
  std::function<void(UniqueFd)> giveBack;
};

// Two connected stream sockets: one for the session, one for whoever asks.
Result<std::pair<UniqueFd, UniqueFd>> streamPair();

}  // namespace lockstep::app
