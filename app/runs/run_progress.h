// RunProgress: how far a run is, as window and command line say it: its step, its epoch, the pace
// of the last steps, and the time that is left. A resumed run goes on counting steps and epochs
// where the run before it stopped. Bookkeeping only: no threads, no clock of its own.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "app/history/history.h"
#include "engine/base/clock.h"

namespace lockstep::app {

// What a run has to do, as it is known before the run says anything.
struct RunScope {
  std::int64_t epochs = 0, maxSteps = 0;  // 0: no such limit
  std::int64_t batch = 0;                 // samples a step, of all ranks; 0: not known
  std::int64_t samples = 0;               // of the training set; 0: not known
  std::vector<EpochRow> before;           // epochs of the runs it was resumed from, in order
};

// Reads the spec as it ran, and the size of the training data where its files lie on this machine.
RunScope scopeOf(const History& history, const RunRow& row, const RunDocuments& documents);

// Means over the same steps, so that samplesPerSecond · stepSeconds is the batch; 0: not known.
struct Pace {
  double stepSeconds = 0, samplesPerSecond = 0;
};

class RunProgress {
 public:
  void begin(RunScope scope);

  // Idempotent: a recorder that takes over tells steps and epochs again. `now`:
  // monotonicNow(). Series other than "loss", "rank/0/step" and "samples_per_second"
  // are ignored.
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
  // Seconds to the last step at the pace this run has had, evaluations and pauses included;
  // `elapsed` is this run's own time. Below 0: not known.
  double secondsLeft(double elapsed) const;

  Pace pace() const;               // of the last seconds of training
  double meanStepSeconds() const;  // over all steps of this run; 0: none
  // Seconds since the last step was completed; 0 while steps come as they did before, or none came.
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
