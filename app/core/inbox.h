// Inbox: the one way from background threads to the thread that owns the application's state.
// Background threads post; the owner drains from one timer (studio) or loop (command line).
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
  // Any thread; calls run in the order of posting.
  void post(std::function<void()> call);
  // The same, dropped where `owner` has gone by the time it would run. An object that posts calls
  // to itself holds a shared_ptr<void> as its first member to be destroyed.
  void post(std::weak_ptr<void> owner, std::function<void()> call);
  // Owner's thread: runs what has been posted; not what these calls post. Returns how many.
  std::size_t drain();
  // Until something is there; false after `limit`.
  bool wait(std::chrono::milliseconds limit);

 private:
  std::mutex mutex_;
  std::condition_variable filled_;
  std::vector<std::function<void()>> calls_;
};

}  // namespace lockstep::app
