// Analysis of step records: where each rank's step time goes, and which ranks hold up the others
// (stragglers). Streaming: records of different ranks may interleave in any order, but are in step
// order per rank.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/clock.h"

namespace lockstep::analysis {

// A training step of one rank, on the common clock.
struct StepSample {
  int rank = 0;
  std::int64_t step = 0;
  Nanoseconds begin = 0, end = 0;
  Nanoseconds arrival = 0;  // at the step's first collective; 0 if it has none
  double data = 0, forward = 0, backward = 0, communication = 0, optimizer = 0;  // seconds
  // Time in which no thread of the rank's process ran: during the step, and the part of it after
  // the arrival.
  double frozen = 0, frozenArrived = 0;
  // Seconds that its loader waited for data files, ahead of the step; < 0: it does not tell.
  double reading = 0;
  double elements = 0;  // of its batch, of a program of the user's own; 0: not known
};

// Seconds of one rank's step. In a synchronous step, waiting is the time from the rank's arrival at
// the collective to the last rank's, at most its communication time; transfer is the remainder.
struct Breakdown {
  double data = 0, forward = 0, backward = 0, waiting = 0, transfer = 0, optimizer = 0;
  // The part of the transfer in which the rank's process did not run, so that the others had to
  // wait although it had arrived.
  double stalled = 0;
  double total() const { return data + forward + backward + waiting + transfer + optimizer; }
  Breakdown& operator+=(const Breakdown& other);
  Breakdown operator*(double factor) const;
};

// Returns Breakdown::stalled; 0 of a step without arrivals.
double stalledSeconds(const StepSample& sample, Nanoseconds lastArrival);

struct StepBreakdown {
  std::int64_t step = 0;
  double seconds = 0;  // of the slowest rank
  std::vector<Breakdown> ranks;
};

// Breaks down one step; `samples` holds one entry per rank, in rank order. Without arrivals, the
// rank with the least communication time counts as the last.
StepBreakdown breakDown(const std::vector<StepSample>& samples);

// Returns what each rank usually takes, of what all take in a step: the lower median, or, of a rank
// with a larger share of the batch, the median time per sample times its samples, if that is more.
// `samples`: those of each rank; empty: alike.
std::vector<double> usualSeconds(const std::vector<double>& own,
                                 const std::vector<double>& samples);
// Returns for each rank how long it makes the others wait: its own time minus what it usually
// takes, or what another rank takes as usual, if that is longer.
std::vector<double> excessSeconds(const std::vector<double>& own, const std::vector<double>& usual);
// The first steps of a run, which warm up, say nothing of its ranks.
inline constexpr std::int64_t kWarmUpSteps = 5;

enum class SlowPhase : std::uint8_t { kData, kForward, kBackward, kTransfer, kOptimizer };
std::string_view slowPhaseName(SlowPhase phase);  // "data", …, "transfer", "optimizer"

// A figure of a rank, beside the lower median of the other ranks; the mean of a window's steps.
struct BesideOthers {
  double own = 0, others = 0;
};

struct Straggler {
  int rank = -1;
  std::int64_t since = 0;                 // first step in which it was late
  SlowPhase phase = SlowPhase::kForward;  // the phase that contributes most of its lateness
  double factor = 1;                      // its own time relative to the usual
  double lostShare = 0;                   // fraction of step time lost to it
  double frozenShare = 0;     // fraction of step time lost while its process was not running
  double lostPerStep = 0;     // seconds
  double lostSeconds = 0;     // that the others waited for it, from step `since` on
  double stepSeconds = 0;     // measured step time
  double withoutSeconds = 0;  // step time were the stragglers as fast as the others
  BesideOthers reading;       // as StepSample
  BesideOthers elements;      // likewise
};

// Finds stragglers: ranks whose own time makes the others wait. Own time runs from the start of the
// step to the arrival at the collective, plus the previous step's optimizer and the part of the
// transfer during which the process was not running. A rank's excess is its own time minus the
// usual: the median rank's (the lower median), so that ranks that merely share a core are not
// blamed. Where ranks have unequal shares of the batch, the usual time is at least the median time
// per sample times the rank's samples: a larger share alone is no excess. What the rank with the
// largest share takes as usual is nobody's excess either.
//
// A rank is reported if, within a window, it costs at least 20 % of the time and is late in at
// least 80 % of the steps in which any rank is, in one of these ways:
// - steady: late by a quarter of a step in 60 % of the steps, and in so many of them that ranks
//   drawn at random would yield the same one once in 100,000 windows;
// - bursts: as many delays of at least 50 ms and ¾ of a step;
// - stops: two delays of at least 0.12 s and two steps with a step between them, or three of at
//   least 0.12 s and ¾ of a step;
// - freezes: delays in which its process is known not to have run: three of at least 30 ms, or two
//   of at least 0.1 s with a step between them, since one may extend over two steps. These are
//   facts rather than statistics, so their cost is measured from the first one on.
// Windows are the last 20 steps (or 0.2 s if steps are shorter) and the last 2.5 s. The first five
// steps of a run do not count. A reported rank is cleared when it costs less than 10 % in the long
// window.
class StragglerFinder {
 public:
  // `samples`: those of each rank in a step; empty: alike.
  explicit StragglerFinder(int world, std::vector<double> samples = {})
      : world_(world), samples_(std::move(samples)) {}
  // Adds one step; steps come in order, with the samples of all ranks in rank order.
  void add(const std::vector<StepSample>& samples);
  const std::vector<Straggler>& current() const { return current_; }

 private:
  struct Rank {
    double own = 0, usual = 0, excess = 0;
    double frozen = 0;   // part of the excess during which the process did not run
    double stalled = 0;  // the part of that after the last rank had arrived
    // Relative to the usual; may be negative.
    double data = 0, forward = 0, backward = 0, optimizer = 0;
    double reading = 0, elements = 0;
  };
  struct Step {
    std::int64_t step = 0;
    double seconds = 0;
    std::vector<Rank> ranks;
  };
  void look();
  // Returns the phase's seconds of each rank minus the usual ones.
  std::vector<double> overUsual(const std::vector<StepSample>& samples,
                                double StepSample::*phase) const;
  std::size_t windowBegin(double seconds) const;
  bool slowIn(std::size_t begin, int rank) const;
  bool freezesIn(std::size_t begin, int rank) const;
  double medianStep(std::size_t begin) const;
  BesideOthers beside(std::size_t begin, std::size_t rank, double Rank::*figure) const;
  Straggler describe(std::size_t begin, int rank) const;

  int world_;
  std::vector<double> samples_;
  std::int64_t seen_ = 0;
  std::int64_t lastStep_ = -1;
  std::vector<double> lastOptimizer_;  // of that step, by rank
  double unseenSeconds_ = 0;           // of steps since the last evaluation
  std::deque<Step> steps_;
  double covered_ = 0;  // total seconds of all
  std::vector<Straggler> current_;
};

// Computes both over a stream of records.
class StepAnalyzer {
 public:
  // `samples`: those of each rank in a step; empty: alike.
  explicit StepAnalyzer(int world, std::vector<double> samples = {});
  // Ignores records of ranks outside the world, and of steps that are completed or given up: those
  // that a rank has passed over.
  void add(const StepSample& sample);
  // Returns the steps that all ranks have reported since the last call, in order.
  std::vector<StepBreakdown> take();
  // Returns the mean of the last 20 complete steps; empty before the first.
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
  std::vector<std::int64_t> newest_;  // step of each rank
  std::int64_t latest_ = 0;           // step of any rank
  std::int64_t done_ = 0;             // the last step completed or given up
  std::vector<StepBreakdown> ready_;
  std::deque<StepBreakdown> recent_;
};

}  // namespace lockstep::analysis
