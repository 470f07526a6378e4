// What of a body comes before what: the order by which memory is laid out, and by which it is
// verified.
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

// Steps of a stream come one after another; one in flight begins when the body's order has come to
// it; and a step comes after those that its `after` names. Tracked by one counter a stream (vector
// clocks: Fidge 1988, Mattern 1989). Precondition: streams and buffers are in range, and a step
// names steps before it.
class Order {
 public:
  explicit Order(const Body& body);

  // Step a is done before step b begins. The number of steps stands for the end of the play, which
  // is after all.
  bool before(int a, int b) const;

  // Of buffers that are no views: all that uses one of them is done before anything that uses the
  // other begins, so that both may have one memory. Views are uses of what they are views of,
  // results to the end.
  bool apart(BufferId a, BufferId b) const { return allBefore(a, b) || allBefore(b, a); }

  // A buffer is in use from the first step that uses it until the step before `end`, the first that
  // begins when all use of it is done, or to the end of the play. Of one that nothing uses first ==
  // end.
  struct Life {
    int first = 0, end = 0;
  };
  Life life(BufferId root) const;

 private:
  // By stream the first and last step that uses a buffer; -1: none does.
  struct Use {
    std::array<int, kStreams> first, last;
    bool toTheEnd = false;
  };
  bool allBefore(BufferId a, BufferId b) const;

  int steps_;
  std::vector<int> stream_, position_;  // of each step, and within its stream
  // how many of a stream are done when a step begins
  std::vector<std::array<int, kStreams>> done_;
  std::vector<Use> uses_;  // by buffer
};

}  // namespace lockstep::plan
