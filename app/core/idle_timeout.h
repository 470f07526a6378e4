// IdleTimeout: a time limit for operations that are cancelled by a stop token.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <thread>

namespace lockstep::app {

// A stop source that is triggered by another token, or after `timeout` without progress.
class IdleTimeout {
 public:
  IdleTimeout(const std::stop_token& stop, std::chrono::milliseconds timeout)
      : timeout_(timeout),
        passOn_(stop, Pass{&source_}),
        thread_([this](const std::stop_token& end) { watch(end); }) {}
  std::stop_token stop() const { return source_.get_token(); }
  void moved() {
    const std::lock_guard lock(mutex_);
    movedAt_ = std::chrono::steady_clock::now();
  }
  bool ended() const {
    const std::lock_guard lock(mutex_);
    return ended_;
  }

 private:
  struct Pass {
    std::stop_source* source;
    void operator()() const { source->request_stop(); }
  };
  void watch(const std::stop_token& end) {
    std::unique_lock lock(mutex_);
    while (std::chrono::steady_clock::now() < movedAt_ + timeout_) {
      if (wake_.wait_until(lock, end, movedAt_ + timeout_, [&] { return end.stop_requested(); }))
        return;
    }
    ended_ = true;
    lock.unlock();
    source_.request_stop();
  }

  const std::chrono::milliseconds timeout_;
  mutable std::mutex mutex_;
  std::condition_variable_any wake_;
  std::chrono::steady_clock::time_point movedAt_ = std::chrono::steady_clock::now();
  bool ended_ = false;
  std::stop_source source_;
  std::stop_callback<Pass> passOn_;
  std::jthread thread_;
};

}  // namespace lockstep::app
