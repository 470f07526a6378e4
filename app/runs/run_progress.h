// RunProgress: the progress of a run as window and command line show it: step, epoch, recent pace
// and time left. A resumed run continues the step and epoch numbers of the run before it. No
// threads, no clock.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "app/history/history.h"
#include "engine/base/clock.h"

namespace lockstep::spec::v1 {
class RunSpec;
}

namespace lockstep::app {

// The length of a run, known before it starts.
struct RunScope {
  std::int64_t epochs = 0, maxSteps = 0;  // 0: no such limit
  std::int64_t batch = 0;                 // samples a step, of all ranks; 0: not known
  std::int64_t samples = 0;               // of the training set; 0: not known
  std::vector<EpochRow> before;           // epochs of the runs it was resumed from, in order
};

// Reads the effective spec, and the size of the training data if its files are on this machine.
RunScope scopeOf(const History& history, const RunRow& row, const RunDocuments& documents);

// Means over the same steps, so that samplesPerSecond · stepSeconds is the batch; 0: unknown.
struct Pace {
  double stepSeconds = 0, samplesPerSecond = 0;
};

// Returns the samples of the training data if its files are on this machine; 0: not known. Texts
// and tables of more than `mostRead` bytes, which have to be read for that, are not known.
std::int64_t trainingSamples(const spec::v1::RunSpec& spec, std::uintmax_t mostRead = UINTMAX_MAX);

class RunProgress {
 public:
  void begin(RunScope scope);

  // Idempotent, since a recorder that takes over repeats steps and epochs. `now` is monotonicNow().
  // Ignores series other than "loss", "rank/0/step" and "samples_per_second".
  void addSeries(const RunBatch::Series& series, Nanoseconds now);
  void addEpoch(const EpochRow& row);

  std::int64_t step() const { return step_; }            // the last one completed; 0: none
  std::int64_t firstStep() const { return firstStep_; }  // the first of this run itself; 0: none
  std::int64_t epochs() const { return scope_.epochs; }
  std::int64_t totalSteps() const;                // 0: not known
  std::int64_t stepsPerEpoch() const;             // 0: not known
  std::int64_t epochOf(std::int64_t step) const;  // from 1
  std::int64_t epoch() const { return epochOf(step_); }
  double fraction() const;  // 0…1; 0 where the total is not known
  // Returns whether the next step waits for an evaluation, as far as known: the last one ended an
  // epoch that has not been told of, or the run.
  bool isBetweenEpochs() const;
  // Returns the seconds left at the mean pace of this run, evaluations and pauses included.
  // `elapsed` is this run's own time. Negative: unknown.
  double secondsLeft(double elapsed) const;

  Pace pace() const;               // of the last seconds of training
  double meanStepSeconds() const;  // over all steps of this run; 0: none
  // Returns the seconds since the last step completed; 0 if steps arrive at their usual pace, or
  // none has completed.
  double stalledSeconds(Nanoseconds now) const;

 private:
  struct Sample {
    std::int64_t step;
    double value;
  };
  void keep(std::deque<Sample>& samples, const Point& point);

  RunScope scope_;
  std::vector<EpochRow> epochs_;  // told, in order, with those of earlier runs
  std::int64_t step_ = 0, firstStep_ = 0;
  Nanoseconds arrived_ = 0;  // when the last step was told of
  std::deque<Sample> seconds_, rates_;
  double sumSeconds_ = 0;
  std::int64_t timedSteps_ = 0;
};

}  // namespace lockstep::app
