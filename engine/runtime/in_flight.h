// Plays collectives while the rank computes: on a thread of their own, in the order they were
// posted.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "engine/base/clock.h"
#include "engine/base/status.h"
#include "engine/comm/communicator.h"
#include "engine/runtime/lane.h"

namespace lockstep::runtime {

// Collectives are posted and waited for by one thread. Failure: the first error of any is told by
// every later call, and none is played after it.
class InFlight {
 public:
  // Played again and again.
  struct Collective {
    comm::Communicator* group = nullptr;
    std::function<Status()> play;
    std::uint64_t ticket = 0;        // of the last posting; 0: never posted
    Nanoseconds begin = 0, end = 0;  // of the last play, once it has been waited for
  };

  // Once for each before it is posted; posting allocates nothing afterwards.
  void prepare();
  void post(Collective& collective);
  bool isDone(const Collective& collective) const {
    return collective.ticket == 0 || lane_->isDone(collective.ticket);
  }
  Status wait(const Collective& collective);
  // Ends the group where the collective is still to be played to its end; afterwards nobody uses
  // its memory.
  void giveUp(const Collective& collective);

 private:
  FirstError failed_;
  std::unique_ptr<Lane<Collective*>> lane_;
};

}  // namespace lockstep::runtime
