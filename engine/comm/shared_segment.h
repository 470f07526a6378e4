// The memory that the ranks of one host share: its layout, and its mapping into this process. Every
// shared field is a lock-free atomic, so that a process may die at any instruction and leave the
// segment consistent.
#pragma once

#include <sys/mman.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "engine/comm/communicator.h"
#include "engine/comm/shared_counter.h"

namespace lockstep::comm {

inline constexpr std::int64_t kHalfBytes = 512 << 10;  // half of a rank's double buffer
inline constexpr std::int64_t kPieceBytes = 32 << 10;  // one piece of a message
inline constexpr std::uint32_t kPieces = 4;            // pieces in flight between two ranks

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

// The mapping, shared by the ranks of one process.
class Segment {
 public:
  Segment(std::byte* base, int size) : base_(base), layout_(size), size_(size) {}
  ~Segment() { munmap(base_, layout_.bytes); }
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  SegmentHeader& header() { return *reinterpret_cast<SegmentHeader*>(base_); }
  RankBlock& rank(int r) { return reinterpret_cast<RankBlock*>(base_ + layout_.ranks)[r]; }
  std::byte* half(int r, std::uint32_t round) {
    return base_ + layout_.buffers + (2 * static_cast<std::size_t>(r) + (round & 1)) * kHalfBytes;
  }
  Mailbox& mailbox(int from, int to) {
    return reinterpret_cast<Mailbox*>(base_ + layout_.mailboxes)[from * size_ + to];
  }

 private:
  std::byte* base_;
  SegmentLayout layout_;
  int size_;
};

// Maps what makeSharedMemory() made, from `offset` on, for a group of `size` ranks.
Result<std::shared_ptr<Segment>> mapSegment(int fd, std::int64_t offset, int size);
// For ranks that are threads of this process.
Result<std::shared_ptr<Segment>> makeSegment(int size);

}  // namespace lockstep::comm
