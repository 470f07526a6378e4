// A Store for ranks that are threads of one process. Thread-safe.
#pragma once

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string>

#include "engine/comm/communicator.h"

namespace lockstep::comm {

class MemoryStore final : public Store {
 public:
  Status set(const std::string& key, const std::string& value) override {
    const std::lock_guard lock(mutex_);
    entries_[key] = value;
    changed_.notify_all();
    return {};
  }
  Result<std::string> get(const std::string& key, Nanoseconds timeout) override {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, std::chrono::nanoseconds(timeout),
                           [&] { return entries_.contains(key); }))
      return makeError(Code::kDeadlineExceeded, "key {}", key);
    return entries_[key];
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> entries_;
};

}  // namespace lockstep::comm
