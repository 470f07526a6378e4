// Restarts of a run after a failure, as its coordinator records them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/status.h"

namespace lockstep::app {

// Comes twice: when a restart begins, with its cause, and when the run trains again.
struct RunRestart {
  int generation = 0;          // of the workers that are started
  std::int64_t wallNs = 0;     // when its coordinator said so
  std::optional<Error> cause;  // it begins
  // Set if nodes were replaced or removed: the nodes that now have ranks, and the number of ranks.
  std::vector<std::string> nodes;
  int world = 0;
  std::vector<double> samples;  // that each rank has of a step from now on; empty: as before
  std::string coordinator;      // the node that coordinates the run from now on; "": the same
  bool ofProgram = false;       // of the user's own: it starts again from what it has saved itself
  std::int64_t lostSteps = 0;   // trained before the failure, and again after it
  double seconds = 0;           // from the failure until the first step
  bool begins() const { return cause.has_value(); }
};

// A restart that begins, as a warning: what failed, and what is done about it.
Error restartWarning(const RunRestart& restart);
// "trains again after 1.8 s; 12 steps are trained again".
Message restartedText(const RunRestart& restart);

}  // namespace lockstep::app
