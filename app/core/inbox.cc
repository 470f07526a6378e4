#include "app/core/inbox.h"

#include <iterator>
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

std::size_t Inbox::drain(std::chrono::milliseconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  std::vector<std::function<void()>> calls;
  {
    const std::lock_guard lock(mutex_);
    calls.swap(calls_);
  }
  std::size_t done = 0;
  while (done < calls.size() && (done == 0 || std::chrono::steady_clock::now() < end))
    std::exchange(calls[done++], nullptr)();
  if (done < calls.size()) {
    const std::lock_guard lock(mutex_);
    const auto rest = calls.begin() + static_cast<std::ptrdiff_t>(done);
    calls_.insert(calls_.begin(), std::make_move_iterator(rest),
                  std::make_move_iterator(calls.end()));
  }
  return done;
}

bool Inbox::wait(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  return filled_.wait_for(lock, limit, [this] { return !calls_.empty(); });
}

}  // namespace lockstep::app
