// A rank's place in the group that shares a segment: it joins and leaves, waits for its peers, and
// learns of the group's first failure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>

#include "engine/comm/process_watch.h"
#include "engine/comm/shared_segment.h"

namespace lockstep::comm {

// Threads: those of the communicator (communicator.h).
class SharedGroup {
 public:
  // Interval at which a sleeper checks on its peers.
  static constexpr Nanoseconds kCheckInterval = 50'000'000;

  // `timeout` is how long a peer may make no progress.
  SharedGroup(std::shared_ptr<Segment> segment, int rank, int size, bool oversubscribed,
              Nanoseconds timeout, RankNames names);
  ~SharedGroup();  // leaves the group
  SharedGroup(const SharedGroup&) = delete;
  SharedGroup& operator=(const SharedGroup&) = delete;

  // Claims the rank's slot; once per group. Errors: kFailedPrecondition where the segment is of
  // another version or size; kAlreadyExists where the rank has joined.
  Status join();

  // Waits until the counter has reached `target`; an error names the peer and becomes the group's.
  Status await(SharedCounter& counter, std::uint32_t target, int peer) {
    return awaitUntil(
        [&] { return reached(counter.value.load(std::memory_order_acquire), target); }, counter,
        peer, kCheckInterval);
  }

  // Waits until ready(). Sleeps on the counter, which the peer advances, at most `nap` at a time.
  template <typename Ready>
  Status awaitUntil(Ready ready, SharedCounter& counter, int peer, Nanoseconds nap) {
    for (int i = 0; i < spins_; ++i) {
      if (ready()) return {};
      __builtin_ia32_pause();
    }
    const Nanoseconds start = monotonicNow();
    Nanoseconds checked = start;
    for (;;) {
      const std::uint32_t seen = counter.value.load(std::memory_order_acquire);
      if (ready()) return {};
      if (failed()) return failure({});
      const Nanoseconds now = monotonicNow();
      if (now - checked >= kCheckInterval) {
        checked = now;
        // Data that a peer published before it ended is valid: re-read the counter afterwards.
        const auto gone = whyGone(peer);
        if (ready()) return {};
        if (gone) return peerError(Code::kAborted, *gone, peer);
      }
      if (now - start >= timeout_) return peerError(Code::kDeadlineExceeded, silence(peer), peer);
      sleepOn(counter, seen, std::clamp<Nanoseconds>(start + timeout_ - now, 1, nap));
    }
  }

  const RankNames& names() const { return names_; }
  bool failed() { return segment_->header().failure.load(std::memory_order_relaxed) != 0; }
  // Returns the group's recorded failure as this rank's error.
  Error failure(Message what);
  // Records the error as the group's failure, unless there is one, wakes all ranks and returns it.
  Error fail(Error error, int culprit);
  // Records that this rank aborts, and wakes all ranks.
  void abort();

 private:
  std::optional<Message> whyGone(int peer);
  Message silence(int peer);
  void recordFailure(Code code, int culprit);
  Error peerError(Code code, Message why, int peer);
  void wakeEverybody();

  std::shared_ptr<Segment> segment_;
  int rank_;
  int size_;
  Nanoseconds timeout_;
  RankNames names_;
  int spins_;
  std::unique_ptr<ProcessWatch[]> watches_;
  bool joined_ = false;
};

}  // namespace lockstep::comm
