// The happens-before order of a body's steps: memory is laid out and verified by it.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "engine/plan/plan.h"

namespace lockstep::plan {

// The buffer that a buffer is a view of, or itself.
inline BufferId rootOf(const Body& body, BufferId id) {
  const BufferId base = body.buffers[static_cast<std::size_t>(id)].base;
  return base >= 0 ? base : id;
}
inline const Buffer& rootBufferOf(const Body& body, BufferId id) {
  return body.buffers[static_cast<std::size_t>(rootOf(body, id))];
}

// Steps of a stream run in order; a step of the communication stream starts once the compute stream
// has reached it; a step starts after those in its `after`. Vector clocks with one counter per
// stream (Fidge 1988, Mattern 1989). Precondition: streams and buffers are in range, and `after`
// names earlier steps.
class Order {
 public:
  explicit Order(const Body& body);

  // Returns whether step a completes before step b starts. The number of steps stands for the end
  // of the program.
  bool before(int a, int b) const;

  // Returns whether all uses of one buffer complete before any use of the other starts, so that
  // they may share memory. Neither is a view; uses of views count for their base, and results are
  // used until the end.
  bool apart(BufferId a, BufferId b) const { return allBefore(a, b) || allBefore(b, a); }

  // A buffer is live from step `first` until before step `end`, the first that starts after all its
  // uses; the number of steps: to the end of the program. first == end for an unused buffer.
  struct Life {
    int first = 0, end = 0;
  };
  Life life(BufferId root) const;

 private:
  // By stream the first and last step that uses a buffer; -1: none.
  struct Use {
    std::array<int, kStreams> first, last;
    bool toTheEnd = false;
  };
  bool allBefore(BufferId a, BufferId b) const;

  int steps_;
  std::vector<int> stream_, position_;  // of each step, and within its stream
  // by step: how many steps of each stream are complete when it starts
  std::vector<std::array<int, kStreams>> done_;
  std::vector<Use> uses_;  // by buffer
};

}  // namespace lockstep::plan
