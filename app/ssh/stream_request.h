// What is asked of an SSH session: a channel wired to a local stream socket, and how it fares.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
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

// How a stream fares, shared by the session and whoever asked for it. Threads: any.
class StreamOutcome {
 public:
  struct End {
    Status status;  // an error: never opened, or lost
    int exitStatus = -1;
    std::string signalName;
  };
  void setOpened();
  void setEnd(End end);  // the first counts
  // Until opened or ended; an end before opening is its error. No limit of its own: a session
  // ends all its streams.
  std::optional<End> waitEnd(std::chrono::steady_clock::time_point deadline);
  bool opened() const;
  std::optional<End> end() const;

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool opened_ = false;
  std::optional<End> end_;
};

// Two connected stream sockets: one for the session, one for whoever asks.
Result<std::pair<UniqueFd, UniqueFd>> streamPair();

}  // namespace lockstep::app
