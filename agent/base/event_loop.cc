#include "agent/base/event_loop.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <thread>

#include "agent/base/heartbeat.h"
#include "engine/base/status.h"

namespace lockstep::agent {
namespace {
thread_local EventLoop* currentLoop = nullptr;
}

EventLoop::EventLoop() : wakeFd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  LOCKSTEP_CHECK(wakeFd_ >= 0, "eventfd");
}
EventLoop::~EventLoop() { close(wakeFd_); }

void EventLoop::wake() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wakeFd_, &one, sizeof one);
}

void EventLoop::post(std::function<void()> work) {
  {
    std::lock_guard lock(mutex_);
    if (ended_) return;
    posted_.push_back(std::move(work));
  }
  wake();
}

bool EventLoop::call(const std::function<void()>& work) {
  if (currentLoop == this) {
    work();
    return true;
  }
  // Shared with the posted work, which the loop may drop when it ends: dropping releases `token`,
  // whose destructor wakes the caller.
  struct Gate {
    std::mutex mutex;
    std::condition_variable changed;
    bool over = false, done = false;
  };
  auto gate = std::make_shared<Gate>();
  struct Token {
    std::shared_ptr<Gate> gate;
    ~Token() {
      std::lock_guard lock(gate->mutex);
      gate->over = true;
      gate->changed.notify_all();
    }
  };
  {
    auto token = std::make_shared<Token>();
    token->gate = gate;
    post([token, &work] {
      work();
      token->gate->done = true;
    });
  }
  std::unique_lock lock(gate->mutex);
  gate->changed.wait(lock, [&] { return gate->over; });
  return gate->done;
}

void EventLoop::callInAnyCase(const std::function<void()>& work) {
  if (call(work)) return;
  const std::lock_guard alone(endedMutex_);
  work();
}

void EventLoop::watch(int fd, short events, std::function<void(short)> handler) {
  watches_[fd] = {++lastWatch_, events,
                  std::make_shared<std::function<void(short)>>(std::move(handler))};
}
void EventLoop::unwatch(int fd) { watches_.erase(fd); }

EventLoop::TimerId EventLoop::after(Nanoseconds delay, std::function<void()> work) {
  const TimerId id = nextTimer_++;
  timers_[id] = {monotonicNow() + delay, std::move(work)};
  return id;
}

void EventLoop::every(Nanoseconds interval, std::function<void()> work) {
  const Nanoseconds now = monotonicNow();
  after(nextMultiple(now, interval) - now, [this, interval, work = std::move(work)]() mutable {
    work();
    every(interval, std::move(work));
  });
}

void EventLoop::cancel(TimerId timer) { timers_.erase(timer); }

void EventLoop::quit() {
  {
    std::lock_guard lock(mutex_);
    quit_ = true;
  }
  wake();
}

void EventLoop::runPosted() {
  std::vector<std::function<void()>> work;
  {
    std::lock_guard lock(mutex_);
    work.swap(posted_);
  }
  for (auto& one : work) one();
}

void EventLoop::runTimers() {
  const Nanoseconds now = monotonicNow();
  std::vector<TimerId> due;
  for (const auto& [id, timer] : timers_)
    if (timer.due <= now) due.push_back(id);
  for (TimerId id : due) {
    auto found = timers_.find(id);
    if (found == timers_.end()) continue;  // cancelled by one before
    auto work = std::move(found->second.work);
    timers_.erase(found);
    work();
  }
}

void EventLoop::run() {
  currentLoop = this;
  std::vector<pollfd> fds;
  std::vector<std::uint64_t> numbers;  // of their watches
  for (;;) {
    {
      std::lock_guard lock(mutex_);
      if (quit_) break;
    }
    fds.assign(1, {wakeFd_, POLLIN, 0});
    numbers.assign(1, 0);
    for (const auto& [fd, watch] : watches_) {
      fds.push_back({fd, watch.events, 0});
      numbers.push_back(watch.number);
    }
    Nanoseconds wait = 3'600'000'000'000;
    const Nanoseconds now = monotonicNow();
    for (const auto& [id, timer] : timers_) wait = std::min(wait, timer.due - now);
    wait = std::max<Nanoseconds>(wait, 0);
    const timespec limit{wait / 1'000'000'000, wait % 1'000'000'000};
    const int ready = ppoll(fds.data(), fds.size(), &limit, nullptr);
    if (ready > 0) {
      if (fds[0].revents != 0) {
        std::uint64_t count = 0;
        [[maybe_unused]] const ssize_t got = read(wakeFd_, &count, sizeof count);
      }
      for (std::size_t i = 1; i < fds.size(); ++i) {
        if (fds[i].revents == 0) continue;
        // A handler before may have closed it, and another file may have its number now.
        auto found = watches_.find(fds[i].fd);
        if (found == watches_.end() || found->second.number != numbers[i]) continue;
        auto handler = found->second.handler;  // lives through an unwatch from within
        (*handler)(fds[i].revents);
      }
    }
    runPosted();
    runTimers();
  }
  std::vector<std::function<void()>> dropped;
  {
    std::lock_guard lock(mutex_);
    ended_ = true;
    dropped.swap(posted_);
  }
  dropped.clear();
  currentLoop = nullptr;
}

}  // namespace lockstep::agent
