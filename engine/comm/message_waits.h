// MessageWaits: which peers a rank is waiting for, to send them a message or to receive one.
// Thread-safe; at most one thread waits per peer and direction.
#pragma once

#include <algorithm>
#include <atomic>
#include <vector>

#include "engine/base/clock.h"
#include "engine/comm/gloo_wire.h"

namespace lockstep::comm {

class MessageWaits {
 public:
  explicit MessageWaits(int size)
      : receiving_(static_cast<std::size_t>(size)), sending_(static_cast<std::size_t>(size)) {}

  // The wait of one message, from begin() until the message is done.
  class Mark {
   public:
    explicit Mark(std::atomic<Nanoseconds>& since) : since_(since) {}
    ~Mark() { since_.store(0); }
    Mark(const Mark&) = delete;
    Mark& operator=(const Mark&) = delete;
    void begin(Nanoseconds now) {
      if (since_.load() == 0) since_.store(now);
    }

   private:
    std::atomic<Nanoseconds>& since_;
  };
  Mark receiving(int peer) { return Mark(receiving_[static_cast<std::size_t>(peer)]); }
  Mark sending(int peer) { return Mark(sending_[static_cast<std::size_t>(peer)]); }

  // Names the peers for which this rank has waited for at least `least`: those from which it
  // receives or, if there are none, those to which it sends.
  void nameIn(Farewell& farewell, Nanoseconds least) const {
    const Nanoseconds now = monotonicNow();
    for (const auto* direction : {&receiving_, &sending_}) {
      if (farewell.awaitsAny()) return;
      for (std::size_t peer = 0; peer < direction->size(); ++peer) {
        const Nanoseconds since = (*direction)[peer].load();
        if (since == 0 || now - since < least) continue;
        farewell.await(static_cast<int>(peer));
        farewell.waited = std::max(farewell.waited, now - since);
      }
    }
  }

 private:
  std::vector<std::atomic<Nanoseconds>> receiving_, sending_;  // by peer: since when; 0: no wait
};

}  // namespace lockstep::comm
