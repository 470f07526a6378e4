// Rebalance: a division of a run's batch with which its ranks would compute equally long. What a
// rank takes for a step is modelled as fixedSeconds + samples × sampleSeconds, by the medians of
// measured steps: forward and backward grow with its samples, data, optimizer and the time in which
// its process did not run within a transfer stay.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "app/runs/rank_costs.h"
#include "engine/base/status.h"

namespace lockstep::app {

struct RankSpeed {
  int rank = 0;
  std::string node;           // "": not known
  std::int64_t samples = 0;   // of a step, as the batch is divided now
  std::int64_t proposed = 0;  // as it would be divided
  double sampleSeconds = 0, fixedSeconds = 0;
  double seconds() const { return fixedSeconds + static_cast<double>(samples) * sampleSeconds; }
  double proposedSeconds() const {
    return fixedSeconds + static_cast<double>(proposed) * sampleSeconds;
  }
};

struct Rebalance {
  std::int64_t first = 0, last = 0;  // the measured steps
  double stepSeconds = 0;            // the median step, of the rank that took longest
  double proposedSeconds = 0;    // likewise: it is shorter by as much as the slowest rank's time
  std::vector<RankSpeed> ranks;  // without servers; ascending
  std::vector<double> shares;    // as strategy.shares: the proposed samples of a micro-batch
  bool changes() const;          // any rank's samples
};

// The steps by which speeds are told: so many of the last ones that all ranks reported, which are
// searched among so many of the newest.
inline constexpr std::int64_t kRebalanceSteps = 50, kRebalanceWindow = 5000;

// Proposes the shares by the `last` steps that all ranks have reported, or says what a step would
// take with those `asked` for, in any unit. `nodes` are of the ranks; shorter if some are not
// known. What is proposed can be planned. Errors: kFailedPrecondition where the run's batch cannot
// be divided otherwise, or too few steps were measured; kInvalidArgument for shares that it cannot
// have.
Result<Rebalance> rebalanceOf(const StepTimes& times, int world, std::span<const std::string> nodes,
                              const PlanFacts& plan, std::int64_t last,
                              const std::vector<double>& asked = {});

}  // namespace lockstep::app
