// EventLoop: handles descriptors, timers and posted work on the thread that calls run(). Workers
// are spawned on that thread, which lives as long as the process, since the parent-death signal is
// tied to the spawning thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "engine/base/clock.h"

namespace lockstep::agent {

class EventLoop {
 public:
  using TimerId = std::uint64_t;

  EventLoop();
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  // Thread-safe. Work posted after run() returned is dropped.
  void post(std::function<void()> work);
  // Posts work and waits for it; on the loop's own thread, runs it at once. Returns false if the
  // loop ended first.
  bool call(const std::function<void()>& work);
  // As call(), for what has to be done in any case: once the loop has ended, on this thread, by one
  // caller at a time.
  void callInAnyCase(const std::function<void()>& work);

  // Must be called on the loop's thread, or before run().
  void watch(int fd, short events, std::function<void(short revents)> handler);
  void unwatch(int fd);
  TimerId after(Nanoseconds delay, std::function<void()> work);
  // Runs at multiples of `interval` on the monotonic clock, as long as the loop runs.
  void every(Nanoseconds interval, std::function<void()> work);
  void cancel(TimerId timer);

  void run();   // until quit()
  void quit();  // any thread

 private:
  struct Watch {
    std::uint64_t number;  // counts the calls of watch()
    short events;
    std::shared_ptr<std::function<void(short)>> handler;
  };
  struct Timer {
    Nanoseconds due;
    std::function<void()> work;
  };
  void wake();
  void runPosted();
  void runTimers();

  int wakeFd_ = -1;
  std::map<int, Watch> watches_;
  std::uint64_t lastWatch_ = 0;
  std::map<TimerId, Timer> timers_;
  TimerId nextTimer_ = 1;
  std::mutex mutex_;
  std::vector<std::function<void()>> posted_;  // mutex_
  bool quit_ = false;                          // mutex_
  bool ended_ = false;                         // mutex_
  std::mutex endedMutex_;                      // of callers of callInAnyCase()
};

}  // namespace lockstep::agent
