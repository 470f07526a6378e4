// LostTime: the time that a failure costs a run, as one node saw it, by that node's clock.
#pragma once

#include <cstdint>

#include "lockstep/run/v1/telemetry.pb.h"

namespace lockstep::app {

class LostTime {
 public:
  // A rank of the node has completed a step; its end in ns.
  void noteStep(std::int64_t step, std::int64_t end);
  void noteFailure();
  // Returns the seconds lost to the failure: from the end of the last step before it, which a hang
  // may precede by long, to the first step after it, and the steps that are trained again, of
  // `stepSeconds` each (NaN: not known). After a failure amid those, only the ones that had been
  // trained again by then are lost once more. `record` has `recovered`.
  double recovered(const run::v1::Record& record, double stepSeconds);

 private:
  struct Latest {
    std::int64_t step = 0, end = 0;  // 0: not known
  };
  Latest latest_;  // step that its ranks have completed since a failure
  Latest failed_;  // the same at a failure from which the run has not recovered
};

}  // namespace lockstep::app
