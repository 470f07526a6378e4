// What becomes of a stream over an SSH channel.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>

#include "engine/base/status.h"

namespace lockstep::app {

// Whether a stream is open, and how it ended; shared by the session and its caller. Threads: any.
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

}  // namespace lockstep::app
