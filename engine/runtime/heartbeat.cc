#include "engine/runtime/heartbeat.h"

#include "engine/base/memory.h"

namespace lockstep::runtime {
namespace {

constexpr std::chrono::seconds kInterval{1};
// For one tensor, or for what the disk still has to take at the end.
constexpr std::chrono::minutes kLimit{30};

// What rank 0 says.
constexpr std::int64_t kAlive = 0, kGoOn = 1, kStuck = 2;

Error stuck() {
  Error error = makeError(Code::kDeadlineExceeded, "rank 0 has waited {} minutes for its disk",
                          kLimit.count());
  error.next = "see whether the disk of its node's work folder answers, then resume";
  return error;
}

}  // namespace

Heartbeat::Heartbeat(const Groups& groups, int rank)
    : groups_(groups), rank_(rank), due_(std::chrono::steady_clock::now() + kInterval) {}

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
  return said == kGoOn ? Status() : Status(stuck());
}

Status Heartbeat::await(std::unique_lock<std::mutex>& lock, std::condition_variable& changed,
                        const std::function<bool()>& done) {
  const auto end = std::chrono::steady_clock::now() + kLimit;
  for (;;) {
    const bool isDone = changed.wait_until(lock, due_, done);
    const auto now = std::chrono::steady_clock::now();
    if (isDone && now < due_) return {};
    std::int64_t said = isDone || now < end ? kAlive : kStuck;
    lock.unlock();
    const Status told = tell(said);
    lock.lock();
    LOCKSTEP_TRY(told);
    if (said == kStuck) return stuck();
    if (isDone) return {};
  }
}

Status Heartbeat::doAtRankZero(const std::function<Status()>& work) {
  if (groups_.all().empty()) return work();
  if (rank_ != 0) return meet();
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  Status result;
  Status waited;
  {
    const std::jthread thread([&] {
      Status status = withMemoryFor("what rank 0 reads", 0, work);
      const std::lock_guard lock(mutex);
      result = std::move(status);
      done = true;
      changed.notify_all();
    });
    std::unique_lock lock(mutex);
    waited = await(lock, changed, [&] { return done; });
  }
  LOCKSTEP_TRY(waited);
  LOCKSTEP_TRY(meet());
  return result;
}

}  // namespace lockstep::runtime
