// What if: how long the steps of a run would take, had something been otherwise. They are replayed
// in the simulator with what was measured of each of them, and with the change. How good that is
// says a replay of what did happen. The method is that of Daydream (Zhu et al., USENIX ATC 2020)
// and dPRO (Hu et al., MLSys 2022); the cost of a slow rank that of Lin et al., "Understanding
// Stragglers in Large Model Training Using What-if Analysis" (OSDI 2025).
#pragma once

#include <cstdint>
#include <stop_token>
#include <vector>

#include "app/whatif/changes.h"
#include "app/whatif/measured_run.h"
#include "engine/base/status.h"
#include "engine/planner/planner.h"

namespace lockstep::app {

// Seconds of a step: means over the replayed steps and over all ranks.
struct Replayed {
  double stepSeconds = 0;
  // By replayed step, where nothing was changed: what was measured, and what the replay took.
  std::vector<double> measured, replayed;
  std::vector<planner::Simulation::Breakdown> ranks;

  double measuredSeconds() const;
  double error() const;   // of the mean: 0.02, the replay takes 2 % longer than was measured
  double spread() const;  // mean deviation of single steps from what was measured
};
// Replays what did happen. Empty where `stop` was requested.
Replayed replayOf(const MeasuredRun& run, std::stop_token stop = {});

struct WhatIfAnswer {
  // Measured, times what the change makes of the replay. Without ranks that were stopped in
  // exchanges, too: what the replay takes, since what it does not know of the run was their doing.
  double stepSeconds = 0;
  double samplesPerSecond = 0;
  std::vector<planner::Simulation::Breakdown> ranks;
};
// A rank that is as fast as its peers takes in each step what one of them, by turns, took in
// another: its steps vary as theirs do. A peer with an equal program also tells how that time is
// divided among the compute steps of the plan. Peers run an equal program; where there is none,
// others count, in proportion to what the plan predicts of both, unless the rank's own steps in
// which it was not stopped tell of less than twice that. Where it took longer than it does then,
// its exchanges take as long as those alike in which nothing was stopped. Errors: kInvalidArgument
// for a change that the run cannot have; kCancelled where `stop` was requested.
Result<WhatIfAnswer> whatIf(const MeasuredRun& run, const Replayed& replayed,
                            const WhatIfChanges& changes, std::stop_token stop = {});

}  // namespace lockstep::app
