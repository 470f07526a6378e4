// The memory that the ranks of one host share, mapped into this process.
#pragma once

#include <sys/mman.h>

#include <memory>

#include "engine/comm/shared_memory.h"

namespace lockstep::comm {

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
