// Lane: a worker thread that runs items one after another, in the order they were posted.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/base/threads.h"

namespace lockstep::runtime {

// Threads: one thread posts and waits. A ticket is an item's number, from 1.
template <typename Work>
class Lane {
 public:
  explicit Lane(std::function<void(const Work&)> handle)
      : handle_(std::move(handle)), thread_(helperThread("lane", [this] { run(); })) {}
  // Completes the current item and drops those posted after it.
  ~Lane() {
    ending_.store(true);
    posted_.fetch_add(1);
    posted_.notify_all();
    thread_.join();
  }
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  // Reserves queue capacity for one more pending item; posting allocates nothing. Waits until the
  // queue is empty, since the thread reads the ring only after the next post.
  void reserve() {
    wait(posted());
    ring_.resize(ring_.size() + 1);
  }
  std::uint64_t post(Work work) {
    const std::uint64_t at = posted();
    ring_[at % ring_.size()] = std::move(work);
    posted_.store(at + 1);
    posted_.notify_all();
    return at + 1;
  }
  std::uint64_t posted() const { return posted_.load(std::memory_order_relaxed); }
  bool isDone(std::uint64_t ticket) const { return done_.load() >= ticket; }
  void wait(std::uint64_t ticket) const {
    for (std::uint64_t done = done_.load(); done < ticket; done = done_.load()) done_.wait(done);
  }

 private:
  void run() {
    for (std::uint64_t at = 0;; ++at) {
      posted_.wait(at);
      if (ending_.load()) return;
      handle_(ring_[at % ring_.size()]);
      done_.store(at + 1);
      done_.notify_all();
    }
  }

  std::function<void(const Work&)> handle_;
  std::vector<Work> ring_;
  std::atomic<std::uint64_t> posted_{0}, done_{0};
  std::atomic<bool> ending_{false};
  std::thread thread_;  // last: uses the members above
};

// Keeps the first error of several threads.
class FirstError {
 public:
  bool isSet() const { return set_.load(); }
  void set(Status status) {
    const std::lock_guard lock(mutex_);
    if (status.ok() || set_.load()) return;
    error_ = std::move(status);
    set_.store(true);
  }
  Status status() const {
    if (!set_.load()) return {};
    const std::lock_guard lock(mutex_);
    return error_;
  }

 private:
  std::atomic<bool> set_{false};
  mutable std::mutex mutex_;
  Status error_;
};

}  // namespace lockstep::runtime
