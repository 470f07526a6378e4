#include "agent/node/watched_task.h"

#include <chrono>

#include "engine/base/memory.h"

namespace lockstep::agent {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kTell{400};  // between two reports to a client
constexpr std::chrono::milliseconds kLook{50};   // whether it is still there

}  // namespace

WatchedTask::WatchedTask(Work work) : thread_([this, work = std::move(work)] { run(work); }) {}

void WatchedTask::run(const Work& work) {
  const DataObserver observer = [this](const node::v1::DataProgress& progress) {
    const std::lock_guard lock(mutex_);
    progress_ = progress;
    return !cancelled_;
  };
  Status status =
      withMemoryFor("the preparation of a run", 0, [&]() -> Status { return work(observer); });
  const std::lock_guard lock(mutex_);
  status_ = std::move(status);
  over_ = true;
  changed_.notify_all();
}

bool WatchedTask::join() {
  const std::lock_guard lock(mutex_);
  if (cancelled_) return false;
  ++waiting_;
  return true;
}

Status WatchedTask::await(const TaskClient& client) {
  auto due = Clock::now() + kTell;
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, kLook, [this] { return over_; })) {
    const node::v1::DataProgress progress = progress_;
    lock.unlock();
    bool gone = client.gone();
    if (!gone && Clock::now() >= due) {
      gone = !client.tell(progress);
      due = Clock::now() + kTell;
    }
    lock.lock();
    if (!gone) continue;
    if (--waiting_ == 0) {
      cancelled_ = true;
      changed_.wait(lock, [this] { return over_; });
    }
    return makeError(Code::kCancelled, "the launch was cancelled");
  }
  --waiting_;
  return status_;
}

bool WatchedTask::isOver() const {
  const std::lock_guard lock(mutex_);
  return over_;
}

}  // namespace lockstep::agent
