// How long the rest of a job takes, at the mean rate so far.
#pragma once

#include "engine/base/clock.h"

namespace lockstep::app {

// Returns the seconds that `left` units of work take, where `done` units took `elapsed` seconds;
// negative: not known yet.
inline double secondsFor(double left, double done, double elapsed) {
  return done > 0 && elapsed > 0 ? elapsed / done * left : -1;
}

// The time left of a job that tells which fraction of it is done. Of a job in stages it is that of
// the stage: one begins where the fraction becomes known, or falls.
class TimeLeft {
 public:
  // `fraction`: 0…1; negative: not known.
  void moved(double fraction, Nanoseconds now) {
    if (last_ < 0 || fraction < last_) {
      first_ = fraction;
      firstNs_ = now;
    }
    last_ = fraction;
    lastNs_ = now;
  }
  // Negative: not known, or too little was done to tell.
  double seconds() const {
    const double elapsed = 1e-9 * static_cast<double>(lastNs_ - firstNs_);
    if (last_ < 0 || last_ - first_ < kLeastFraction || elapsed < kLeastSeconds) return -1;
    return secondsFor(1 - last_, last_ - first_, elapsed);
  }

 private:
  static constexpr double kLeastFraction = 0.01, kLeastSeconds = 1;
  double first_ = -1, last_ = -1;
  Nanoseconds firstNs_ = 0, lastNs_ = 0;
};

}  // namespace lockstep::app
