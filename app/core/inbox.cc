#include "app/core/inbox.h"

#include <utility>

namespace lockstep::app {

void Inbox::post(std::function<void()> call) {
  {
    const std::lock_guard lock(mutex_);
    calls_.push_back(std::move(call));
  }
  filled_.notify_one();
}

void Inbox::post(std::weak_ptr<void> owner, std::function<void()> call) {
  post([owner = std::move(owner), call = std::move(call)] {
    if (!owner.expired()) call();
  });
}

std::size_t Inbox::drain() {
  std::vector<std::function<void()>> calls;
  {
    const std::lock_guard lock(mutex_);
    calls.swap(calls_);
  }
  for (auto& call : calls) {
    call();
    call = nullptr;
  }
  return calls.size();
}

bool Inbox::wait(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  return filled_.wait_for(lock, limit, [this] { return !calls_.empty(); });
}

}  // namespace lockstep::app
