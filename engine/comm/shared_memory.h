// The layout of the shared segment, and waiting on its words. Every shared field is a lock-free
// atomic, so that a process may die at any instruction and leave the segment consistent.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "engine/base/clock.h"
#include "engine/comm/communicator.h"

namespace lockstep::comm {

inline constexpr std::int64_t kHalfBytes = 512 << 10;  // one half of a rank's double buffer
inline constexpr std::int64_t kPieceBytes = 32 << 10;  // one piece of a message
inline constexpr std::uint32_t kPieces = 4;            // pieces in flight between two ranks

// A counter that ranks wait on. `sleepers` is raised before the counter is read a last time and
// the kernel is asked, so a writer that sees none has been seen.
struct SharedCounter {
  std::atomic<std::uint32_t> value;
  std::atomic<std::uint32_t> sleepers;
};

enum class Presence : std::uint32_t { kAbsent, kJoined, kLeft };

// What a rank is doing in a round, so that its peers notice when they do something else.
struct Call {
  std::uint64_t kind = 0;  // operation, type and root, packed
  std::uint64_t bytes = 0;
  bool operator==(const Call&) const = default;
};

struct alignas(64) RankBlock {
  SharedCounter round;  // rounds this rank has published
  std::atomic<Presence> presence;
  std::atomic<std::int32_t> pid;
  Call calls[2];  // of round r in calls[r & 1], published with the round
};

struct alignas(64) Piece {
  std::int64_t total;  // bytes of the whole message
  std::int32_t tag;
  std::int32_t length;  // bytes of this piece
  alignas(64) std::byte data[kPieceBytes];
};

// Pieces from one rank to another: the writer owns slot (written % kPieces) while
// written - read < kPieces.
struct alignas(64) Mailbox {
  SharedCounter written;
  alignas(64) SharedCounter read;
  Piece pieces[kPieces];
};

struct alignas(64) SegmentHeader {
  std::atomic<std::uint64_t> layout;  // kLayout and the size, set by the first rank to open
  // 0, or the group's first failure: Code in the high half, culprit + 1 in the low half.
  std::atomic<std::uint64_t> failure;
};

inline constexpr std::uint64_t kLayout = 0x4c6f636b73000200u;

struct SegmentLayout {
  explicit SegmentLayout(int size)
      : ranks(sizeof(SegmentHeader)),
        buffers(roundUp(ranks + static_cast<std::size_t>(size) * sizeof(RankBlock))),
        mailboxes(buffers + static_cast<std::size_t>(size) * 2 * kHalfBytes),
        bytes(roundUp(mailboxes + static_cast<std::size_t>(size) * static_cast<std::size_t>(size) *
                                      sizeof(Mailbox))) {}
  static std::size_t roundUp(std::size_t n) { return (n + 4095) & ~std::size_t{4095}; }
  std::size_t ranks, buffers, mailboxes, bytes;
};

static_assert(std::atomic<std::uint32_t>::is_always_lock_free);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));

// Sleeps while the counter is `seen`, at most `limit`; wakes early at will.
void sleepOn(SharedCounter& counter, std::uint32_t seen, Nanoseconds limit);
void wakeAll(SharedCounter& counter);
// One more, and wakes who sleeps on it.
void publish(SharedCounter& counter, std::uint32_t value);
inline bool reached(std::uint32_t value, std::uint32_t target) {
  return static_cast<std::int32_t>(value - target) >= 0;
}

// Says whether a process of this host has ended, a zombie included. Threads: any.
class ProcessWatch {
 public:
  ProcessWatch() = default;
  ~ProcessWatch();
  ProcessWatch(const ProcessWatch&) = delete;
  ProcessWatch& operator=(const ProcessWatch&) = delete;
  bool ended(int pid);

 private:
  std::mutex mutex_;
  int pid_ = 0;
  int descriptor_ = -1;
  bool ended_ = false;
};

}  // namespace lockstep::comm
