// StepsWithout: what a step of a run would take, were some of its ranks as fast as their peers; by
// a replay of its measured steps (what_if.h).
#pragma once

#include <cstdint>
#include <stop_token>
#include <string>
#include <vector>

#include "app/history/history.h"
#include "app/runs/rank_costs.h"
#include "engine/base/status.h"

namespace lockstep::app {

// Ranks that are slow together, ascending: one, or those of a node.
using SlowRanks = std::vector<int>;

struct StepsWithout {
  std::int64_t first = 0, last = 0;  // the replayed steps
  double measuredSeconds = 0;        // of a step
  double error = 0;   // of a replay of what did happen: 0.02, it takes 2 % longer than was measured
  double spread = 0;  // mean deviation of single steps from what was measured
  std::vector<SlowRanks> ranks;
  std::vector<double> seconds;  // by `ranks`, a step without them; NaN: the run cannot be without
  double without(const SlowRanks& slow) const;  // NaN: not known
};
// Replays the run's last `last` steps, or all for 0; of a large plan about a second for each of
// `ranks`. Errors: those of readMeasuredRun; kCancelled soon after `stop` is requested.
Result<StepsWithout> stepsWithout(const History& history, const RunRow& row,
                                  std::vector<SlowRanks> ranks, std::int64_t last = 0,
                                  std::stop_token stop = {});

// The ranks of a row of `costs`, of a rank or a node.
SlowRanks ranksOf(const RankCosts& costs, const RankCost& row);
// What is worth a replay: the ranks of the rows that were late and cost at least a quarter of what
// the first one did, four at most. `rows` by descending cost.
std::vector<SlowRanks> lateRanks(const RankCosts& costs, const std::vector<RankCost>& rows);

// "without rank 2 (n3) a step takes 31.00 ms instead of 68.20 (steps 40 to 88 replayed, with an
// error of +1.2 %)"; "without rank 2 (n3) a step still takes 68.20 ms (…" if that is no shorter.
std::string withoutText(const StepsWithout& steps, int rank, const std::string& node);

}  // namespace lockstep::app
