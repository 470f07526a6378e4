// Layout of the shared-memory segment, and waiting on its counters. Every shared field is a
// lock-free atomic, so that a process may die at any instruction and leave the segment consistent.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "engine/base/clock.h"
#include "engine/comm/communicator.h"

namespace lockstep::comm {

inline constexpr std::int64_t kHalfBytes = 512 << 10;  // half of a rank's double buffer
inline constexpr std::int64_t kPieceBytes = 32 << 10;  // one piece of a message
inline constexpr std::uint32_t kPieces = 4;            // pieces in flight between two ranks

// A counter that ranks wait on (futex). A waiter raises `sleepers` before it re-reads the counter
// and sleeps, so a writer that sees no sleepers cannot miss one.
struct SharedCounter {
  std::atomic<std::uint32_t> value;
  std::atomic<std::uint32_t> sleepers;
};

enum class Presence : std::uint32_t { kAbsent, kJoined, kLeft };

// The call a rank makes in a round, so that peers detect a mismatch.
struct Call {
  std::uint64_t kind = 0;  // operation, type and root, packed
  std::uint64_t bytes = 0;
  bool operator==(const Call&) const = default;
};

struct alignas(64) RankBlock {
  SharedCounter round;  // number of rounds published by this rank
  std::atomic<Presence> presence;
  std::atomic<std::int32_t> pid;
  Call calls[2];  // round r uses calls[r & 1], published with the round
};

struct alignas(64) Piece {
  std::int64_t total;  // bytes of the whole message
  std::int32_t tag;
  std::int32_t length;  // bytes of this piece
  alignas(64) std::byte data[kPieceBytes];
};

// Ring of message pieces from one rank to another: the writer owns slot (written % kPieces) while
// written − read < kPieces.
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

// Sleeps while the counter equals `seen`, at most `limit`; may wake spuriously.
void sleepOn(SharedCounter& counter, std::uint32_t seen, Nanoseconds limit);
void wakeAll(SharedCounter& counter);
// Stores the value and wakes all sleepers.
void publish(SharedCounter& counter, std::uint32_t value);
inline bool reached(std::uint32_t value, std::uint32_t target) {
  return static_cast<std::int32_t>(value - target) >= 0;
}

// Detects that processes of this host have ended, including zombies. Thread-safe.
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
