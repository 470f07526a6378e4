// How long a step of a run or a launch would take with other ranks or other settings. It is planned
// anew, and each kind of operation and exchange takes as many times its built-in cost as was
// measured in the run, or predicted by a benchmark, which the same simulation is held against.
#pragma once

#include <stop_token>
#include <string>
#include <vector>

#include "app/runs/preview.h"
#include "app/whatif/what_if.h"
#include "engine/specs/specs.h"

namespace lockstep::app {

inline constexpr int kMostRanks = specs::kMaxRanks;

struct OtherSettings {
  // Workers and servers; 0: as many as there were. Where there are more, further hosts are copies
  // of those that the cluster has; where there are fewer, its last ranks are left out.
  int ranks = 0;
  std::vector<std::string> sets;  // "path=value", as of --set
  bool empty() const { return ranks == 0 && sets.empty(); }
};

// What a run was launched with, or would be.
struct Launched {
  LaunchRequest request;
  std::vector<HostFacts> hosts;
};
// Errors: kFailedPrecondition.
Result<Launched> launchOf(const History& history, const std::string& run);

struct PlannedAnew {
  int ranks = 0;
  // Measured, times what the settings make of the simulated step.
  double stepSeconds = 0, samplesPerSecond = 0;
  double error = 0;  // of the simulation of what did happen: 0.1, it takes 10 % too long
};
// Errors: kFailedPrecondition; those of the planner for settings that are not possible; kCancelled
// where `stop` was requested, after the plan that is being made.
Result<PlannedAnew> plannedAnew(const Launched& launched, const MeasuredRun& run,
                                const Replayed& replayed, const OtherSettings& settings,
                                const std::stop_token& stop = {});

}  // namespace lockstep::app
