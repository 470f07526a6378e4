// When the points of a run's curves were, by the wall clock.
#pragma once

#include <map>
#include <vector>

#include "app/history/history.h"
#include "app/history/run_csv.h"
#include "engine/base/status.h"

namespace lockstep::app {

// When each step of a rank began, in seconds by its node's wall clock. Files of earlier versions
// lack that: of these, the sum of the steps before, from `start` on. x: steps.
Result<std::vector<Point>> stepsBegan(const RunStore& store, int rank, double start);

// Of one rank; of rank 0 where the times of its own steps were not recorded. Times of steps that
// were not recorded are between those of the recorded ones beside them; where there are none, all
// are that at which the run began. In seconds.
class StepTimes {
 public:
  static Result<StepTimes> of(const RunRow& row, const RunStore& store, int rank);
  // For a run under way: adds the steps of `rank` that were recorded since the last call. Steps
  // after the last are as far apart as the two before, until `now`; where none were recorded yet,
  // all times are `now`.
  Status advance(const RunStore& store, int rank, double now);
  void forgetOld();                              // all but the newest steps
  bool empty() const { return began_.empty(); }  // no times were recorded
  double ofStep(double step) const;
  double ofEpoch(double epoch) const;  // of its last step
  double ofPoint(SeriesAxis axis, double x) const;

 private:
  void readEpochs(const RunStore& store);
  double afterLast(double step) const;

  double start_ = 0;
  double now_ = 0;  // of a run under way
  std::vector<Point> began_;
  std::map<double, double> stepOf_;  // by epoch
};

}  // namespace lockstep::app
