// Runs collectives asynchronously on a communication thread, in the order they are posted.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "engine/base/clock.h"
#include "engine/base/status.h"
#include "engine/comm/communicator.h"
#include "engine/runtime/lane.h"

namespace lockstep::runtime {

// Threads: one thread posts and waits. After the first error nothing runs any more, and every later
// call returns it.
class AsyncCollectives {
 public:
  // May be posted repeatedly.
  struct Collective {
    comm::Communicator* group = nullptr;
    std::function<Status()> run;
    std::uint64_t ticket = 0;        // of the last post; 0: never posted
    Nanoseconds begin = 0, end = 0;  // of the last run, valid after wait()
  };

  // Call once per collective before posting it. post() allocates nothing.
  void prepare();
  void post(Collective& collective);
  bool isDone(const Collective& collective) const {
    return collective.ticket == 0 || lane_->isDone(collective.ticket);
  }
  Status wait(const Collective& collective);
  // Aborts the group if the collective is still pending; afterwards its memory is no longer
  // accessed.
  void giveUp(const Collective& collective);

 private:
  FirstError failed_;
  std::unique_ptr<Lane<Collective*>> lane_;
};

}  // namespace lockstep::runtime
