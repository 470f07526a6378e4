#include "engine/runtime/heartbeat.h"

#include <algorithm>
#include <utility>

namespace lockstep::runtime {
namespace {

constexpr std::chrono::seconds kInterval{1};
// The message of rank 0.
constexpr std::int64_t kAlive = 0, kGoOn = 1, kStuck = 2;

std::string durationText(std::chrono::nanoseconds duration) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(duration).count();
  return seconds >= 120 ? fmt::format("{} min", seconds / 60) : fmt::format("{} s", seconds);
}

}  // namespace

DiskWait& diskWait() {
  static DiskWait wait;
  return wait;
}

Heartbeat::Heartbeat(const Groups& groups, int rank, std::string task)
    : groups_(groups),
      rank_(rank),
      task_(std::move(task)),
      due_(std::chrono::steady_clock::now() + kInterval) {}

Error diskStuck(const std::string& task, int rank) {
  Error error = makeError(Code::kDeadlineExceeded, "rank {} has waited {} for its disk", rank,
                          durationText(diskWait().limit));
  error.rank = rank;
  error.why = task;
  error.next = "check whether the disk of its node's work folder responds, then resume";
  return error;
}

Status Heartbeat::tell(std::int64_t& said) {
  Status told = groups_.broadcast(&said, sizeof said);
  due_ = std::chrono::steady_clock::now() + kInterval;
  return told;
}

Status Heartbeat::meet() {
  std::int64_t said = rank_ == 0 ? kGoOn : kAlive;
  do {
    LOCKSTEP_TRY(tell(said));
  } while (said == kAlive);
  return said == kGoOn ? Status() : Status(diskStuck(task_));
}

Status Heartbeat::await(std::unique_lock<std::mutex>& lock, std::condition_variable& changed,
                        const std::function<bool()>& done) {
  const auto end = std::chrono::steady_clock::now() + diskWait().limit;
  for (;;) {
    const bool isDone = changed.wait_until(lock, std::min(due_, end), done);
    const auto now = std::chrono::steady_clock::now();
    if (isDone && now < due_) return {};
    std::int64_t said = isDone || now < end ? kAlive : kStuck;
    lock.unlock();
    const Status told = tell(said);
    lock.lock();
    if (said == kStuck) {
      if (diskWait().onStuck) diskWait().onStuck(diskStuck(task_));
      return diskStuck(task_);
    }
    LOCKSTEP_TRY(told);
    if (isDone) return {};
  }
}

}  // namespace lockstep::runtime
