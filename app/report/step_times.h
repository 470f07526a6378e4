// When the points of a run's curves were, by the wall clock.
#pragma once

#include <map>
#include <vector>

#include "app/history/history.h"
#include "app/history/run_csv.h"
#include "engine/base/status.h"

namespace lockstep::app {

// Of one rank; of rank 0 where the times of its own steps were not recorded. Times of steps that
// were not recorded are between those of the recorded ones beside them; where there are none, all
// are that at which the run began. In seconds.
class StepTimes {
 public:
  static Result<StepTimes> of(const RunRow& row, const RunStore& store, int rank);
  double ofStep(double step) const;
  double ofEpoch(double epoch) const;  // of its last step
  double ofPoint(SeriesAxis axis, double x) const;

 private:
  double start_ = 0;
  std::vector<Point> began_;
  std::map<double, double> stepOf_;  // by epoch
};

}  // namespace lockstep::app
