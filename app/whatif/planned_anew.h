// How long a step of a run or a launch would take with other ranks or other settings. It is planned
// anew, and each kind of operation and exchange takes as many times its built-in cost as was
// measured in the run, or predicted by a benchmark, which the same simulation is held against.
#pragma once

#include <memory>
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

class CostRatios;

// The costs of `run`, for plans of other launches.
class MeasuredCosts {
 public:
  // `launched` is what `run` was launched with. Errors: kFailedPrecondition; kCancelled where
  // `stop` was requested.
  static Result<MeasuredCosts> of(const Launched& launched, const MeasuredRun& run,
                                  const Replayed& replayed, const std::stop_token& stop = {});
  double error() const { return same_ / measured_ - 1; }  // as PlannedAnew::error
  // Errors: those of the planner; kResourceExhausted for what does not fit in memory.
  Result<PlannedAnew> plan(const Launched& other) const;

 private:
  std::shared_ptr<const CostRatios> ratios_;
  double measured_ = 0, same_ = 0;  // seconds of the run's own step: measured, and simulated
};
// Errors: kFailedPrecondition; those of the planner for settings that are not possible; kCancelled
// where `stop` was requested, after the plan that is being made.
Result<PlannedAnew> plannedAnew(const Launched& launched, const MeasuredRun& run,
                                const Replayed& replayed, const OtherSettings& settings,
                                const std::stop_token& stop = {});

}  // namespace lockstep::app
