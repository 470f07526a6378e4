#include "app/ssh/stream_outcome.h"

#include <utility>

namespace lockstep::app {

void StreamOutcome::setOpened() {
  const std::lock_guard lock(mutex_);
  opened_ = true;
  changed_.notify_all();
}
void StreamOutcome::setEnd(End end) {
  const std::lock_guard lock(mutex_);
  if (!end_) end_ = std::move(end);
  changed_.notify_all();
}
std::optional<StreamOutcome::End> StreamOutcome::waitEnd(
    std::chrono::steady_clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, deadline, [&] { return end_.has_value(); });
  return end_;
}
bool StreamOutcome::opened() const {
  const std::lock_guard lock(mutex_);
  return opened_;
}
std::optional<StreamOutcome::End> StreamOutcome::end() const {
  const std::lock_guard lock(mutex_);
  return end_;
}

}  // namespace lockstep::app
