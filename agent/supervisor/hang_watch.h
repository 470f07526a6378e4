// HangWatch: which ranks hold up a run that makes no progress. Has neither processes nor timers.
//
// Each rank tells when its training has stood still for a second, and for which ranks it waits
// there (Stalled). Following who waits for whom leads to a rank that waits for none: it computes,
// reads data, or is stopped. Ranks that are all in one collective, or in a circle, wait for each
// other, which may be one that hangs within its collective: its stack tells. (PyTorch's Flight
// Recorder compares collectives in this way, ByteRobust stacks.)
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/clock.h"
#include "engine/base/status.h"
#include "lockstep/node/v1/node.pb.h"

namespace lockstep::agent {

class HangWatch {
 public:
  static constexpr Nanoseconds kFirst = 20'000'000'000;  // until the length of steps is known
  static constexpr std::size_t kRecent = 16;

  // A new generation begins.
  void clear() { *this = HangWatch(); }
  // Notes how long a step of one of the ranks took. The first one of a generation does not count.
  void noteStep(Nanoseconds duration);
  Nanoseconds usualStep() const;  // the median of the last ones; 0: not known
  void note(const node::v1::Stalled& stalled, Nanoseconds now);
  // What is known of this rank no longer holds.
  void forget(int rank) { positions_.erase(rank); }

  // Returns how long a rank may wait: specs::kHang of the median of the last steps, which a hang
  // that passes does not change.
  Nanoseconds limit() const;

  struct Verdict {
    std::vector<int> ranks;  // in order
    int waiting = -1;        // the rank that has waited longest
    bool certain = true;     // false: one of `ranks` may hang within its collective
    Error warning;           // without a node
  };
  // Returns which ranks hold the others up, once for each hang; nothing while there is none.
  std::optional<Verdict> judge(Nanoseconds now);
  // Returns the verdict with what the stacks of its ranks say: a line for each thread, and one for
  // each frame, indented, innermost first. An uncertain verdict may become certain.
  Verdict refine(Verdict verdict, const std::map<int, std::vector<std::string>>& stacks) const;
  bool hangs() const { return !judged_.empty(); }

 private:
  struct Position {
    node::v1::Stalled stalled;
    Nanoseconds since = 0;
  };
  bool isSame(int rank, const Position& other) const;  // in the same collective
  int culprit(int waiting) const;                      // -1: they wait for each other
  Message placeText(int rank, Nanoseconds now) const;

  std::map<int, Position> positions_;  // of ranks that stand still
  std::vector<int> judged_;    // the last verdict's ranks and the one that waited, until one moves
  bool isFirst_ = true;        // no step has completed
  std::deque<double> recent_;  // durations of the last steps
};

}  // namespace lockstep::agent
