// Analysis: from the steps' records to answers. Where a step's time goes on each rank, and which
// rank makes the others wait. Streaming: records come in any order of ranks, in step order of each.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string_view>
#include <vector>

#include "engine/base/clock.h"

namespace lockstep::analysis {

// One training step of one rank, its clock brought to the common one.
struct StepSample {
  int rank = 0;
  std::int64_t step = 0;
  Nanoseconds begin = 0, end = 0;
  Nanoseconds arrival = 0;  // at the step's first collective; 0 where it has none
  double data = 0, forward = 0, backward = 0, communication = 0, optimizer = 0;  // seconds
  // In which no thread of the rank's process ran: within the step, and of that after the arrival.
  double frozen = 0, frozenArrived = 0;
};

// Seconds of one step of one rank. In a synchronous step waiting is the time from a rank's arrival
// at the collective to the last rank's, never more than its communication; transfer is the rest.
struct Breakdown {
  double data = 0, forward = 0, backward = 0, waiting = 0, transfer = 0, optimizer = 0;
  double total() const { return data + forward + backward + waiting + transfer + optimizer; }
  Breakdown& operator+=(const Breakdown& other);
  Breakdown operator*(double factor) const;
};

struct StepBreakdown {
  std::int64_t step = 0;
  double seconds = 0;  // the longest of the ranks
  std::vector<Breakdown> ranks;
};

// `samples` of one step, one a rank, in rank order. Without arrivals the rank that spent least in
// communication is taken for the last.
StepBreakdown breakDown(const std::vector<StepSample>& samples);

enum class SlowPhase : std::uint8_t { kData, kForward, kBackward, kTransfer, kOptimizer };
std::string_view slowPhaseName(SlowPhase phase);  // "data", …, "transfer", "optimizer"

struct Straggler {
  int rank = -1;
  std::int64_t since = 0;                 // the first step it was late in
  SlowPhase phase = SlowPhase::kForward;  // where most of its lateness arises
  double factor = 1;                      // its own time by that of the rank in the middle
  double lostShare = 0;                   // of the step time, lost to it
  double frozenShare = 0;                 // of the step time, lost because its process did not run
  double stepSeconds = 0;                 // what a step takes
  double withoutSeconds = 0;  // what it would take were the stragglers as quick as the others
};

// Names ranks whose own time makes the others wait: from the step's begin to their arrival at the
// collective, before it the optimizer of the step before, and of the transfer what their process
// did not run for. A rank's excess is its own time over that of the rank in the middle (of an even
// number the quicker), so that ranks that merely share a core excuse one another.
//
// A rank is named when in a window it costs at least 20 % of the time, and it is late in at least
// 80 % of the steps in which any rank is, in one of these ways:
//   steady: late by a quarter of a step in 60 % of the steps, and in so many of them that ranks
//           drawn at random would be the same one once in 100,000 windows;
//   bursts: as many delays of at least 50 ms and ¾ step;
//   stops:  two delays of at least 0.12 s and two steps with a step between them, or three of at
//           least 0.12 s and ¾ step;
//   freezes: delays in which its process is known not to have run: three of at least 30 ms, or two
//           of at least 0.1 s with a step between them, as one may reach over two. No run of luck
//           has to be ruled out of facts, so their cost is measured from the first of them on.
// Windows are the last 20 steps (or 0.2 s of them where steps are shorter) and the last 2.5 s. The
// first five steps of a run do not count. A named rank is cleared when it costs less than 10 % in
// the long window.
class StragglerFinder {
 public:
  explicit StragglerFinder(int world) : world_(world) {}
  // Steps in order, each with the samples of all ranks in rank order.
  void add(const std::vector<StepSample>& samples);
  const std::vector<Straggler>& current() const { return current_; }

 private:
  struct Rank {
    double own = 0, excess = 0;
    double frozen = 0;   // of the excess: the process did not run
    double stalled = 0;  // of that: after the last rank had arrived
    // Over the rank in the middle; may be below 0.
    double data = 0, forward = 0, backward = 0, optimizer = 0;
  };
  struct Step {
    std::int64_t step = 0;
    double seconds = 0;
    double middle = 0;  // own time of the rank in the middle
    std::vector<Rank> ranks;
  };
  void look();
  std::size_t windowBegin(double seconds) const;
  bool slowIn(std::size_t begin, int rank) const;
  bool freezesIn(std::size_t begin, int rank) const;
  double medianStep(std::size_t begin) const;
  Straggler describe(std::size_t begin, int rank) const;

  int world_;
  std::int64_t seen_ = 0;
  std::int64_t lastStep_ = -1;
  std::vector<double> lastOptimizer_;  // of that step, by rank
  double unseenSeconds_ = 0;           // of steps since the last look
  std::deque<Step> steps_;
  double covered_ = 0;  // seconds of them all
  std::vector<Straggler> current_;
};

// Both together over a stream of records.
class StepAnalyzer {
 public:
  explicit StepAnalyzer(int world);
  // Records of ranks past the world, and of steps that are done or given up, are ignored.
  void add(const StepSample& sample);
  // Steps that all ranks have told of since the last call, in order.
  std::vector<StepBreakdown> take();
  // Mean of the last 20 complete steps; empty before the first.
  StepBreakdown recent() const;
  const std::vector<Straggler>& stragglers() const { return finder_.current(); }

 private:
  struct Pending {
    std::vector<StepSample> samples;
    int missing = 0;
  };
  int world_;
  StragglerFinder finder_;
  std::map<std::int64_t, Pending> pending_;
  std::int64_t done_ = 0;  // the last step completed or given up
  std::vector<StepBreakdown> ready_;
  std::deque<StepBreakdown> recent_;
};

}  // namespace lockstep::analysis
