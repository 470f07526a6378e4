// Inbox: a queue of calls from background threads to the thread that owns the application's state.
// The owner drains it from a timer (studio) or a loop (command line).
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace lockstep::app {

class Inbox {
 public:
  // Thread-safe. Calls run in posting order.
  void post(std::function<void()> call);
  // Posts a call that is dropped if `owner` has expired when it would run. An object that posts
  // calls to itself holds a shared_ptr<void> that is destroyed first.
  void post(std::weak_ptr<void> owner, std::function<void()> call);
  // Runs the calls posted so far, on the owner's thread; excludes calls posted by them. After
  // `limit` it leaves the others for the next time, having run at least one. Returns their number.
  std::size_t drain(std::chrono::milliseconds limit = std::chrono::hours(1));
  // Waits for a call; returns false after `limit`.
  bool wait(std::chrono::milliseconds limit);

 private:
  std::mutex mutex_;
  std::condition_variable filled_;
  std::vector<std::function<void()>> calls_;
};

}  // namespace lockstep::app
