// Whether processes of this host have ended.
#pragma once

#include <mutex>

namespace lockstep::comm {

// Detects that processes of this host have ended, including zombies. Thread-safe.
class ProcessWatch {
 public:
  ProcessWatch() = default;
  ~ProcessWatch();
  ProcessWatch(const ProcessWatch&) = delete;
  ProcessWatch& operator=(const ProcessWatch&) = delete;
  bool ended(int pid);

 private:
  std::mutex mutex_;
  int pid_ = 0;
  int descriptor_ = -1;
  bool ended_ = false;
};

}  // namespace lockstep::comm
