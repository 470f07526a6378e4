#include "app/whatif/steps_without.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "app/whatif/what_if.h"

namespace lockstep::app {
namespace {

constexpr std::size_t kMostLate = 4;
constexpr double kLeastCost = 0.25;  // of the costliest row's
constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

// Of a short step as many digits as tell what it gains.
std::string millisecondsOf(double seconds) {
  const double ms = 1e3 * seconds;
  return fmt::format("{:.{}f}", ms, ms < 10 ? 3 : ms < 100 ? 2 : 1);
}

}  // namespace

double StepsWithout::without(const SlowRanks& slow) const {
  const auto at = std::find(ranks.begin(), ranks.end(), slow);
  return at == ranks.end() ? kUnknown : seconds[static_cast<std::size_t>(at - ranks.begin())];
}

Result<StepsWithout> stepsWithout(const History& history, const RunRow& row,
                                  std::vector<SlowRanks> ranks, std::int64_t last,
                                  std::stop_token stop) {
  LOCKSTEP_ASSIGN(const MeasuredRun run, readMeasuredRun(history, row, last, stop));
  const Replayed replayed = replayOf(run, stop);
  LOCKSTEP_TRY(unlessStopped(stop));
  StepsWithout out;
  out.first = run.steps.front();
  out.last = run.steps.back();
  out.measuredSeconds = replayed.measuredSeconds();
  out.error = replayed.error();
  out.spread = replayed.spread();
  for (const SlowRanks& slow : ranks) {
    const auto answer = whatIf(run, replayed, {.without = slow}, stop);
    LOCKSTEP_TRY(unlessStopped(stop));
    out.seconds.push_back(answer.ok() ? answer->stepSeconds : kUnknown);
  }
  out.ranks = std::move(ranks);
  return out;
}

SlowRanks ranksOf(const RankCosts& costs, const RankCost& row) {
  if (row.rank >= 0) return {row.rank};
  SlowRanks out;
  for (const RankCost& one : costs.ranks)
    if (one.node == row.node) out.push_back(one.rank);
  std::sort(out.begin(), out.end());
  return out;
}

std::vector<SlowRanks> lateRanks(const RankCosts& costs, const std::vector<RankCost>& rows) {
  std::vector<SlowRanks> out;
  for (const RankCost& row : rows)
    if (row.lateSteps > 0 && row.seconds >= kLeastCost * rows.front().seconds &&
        out.size() < kMostLate)
      out.push_back(ranksOf(costs, row));
  return out;
}

std::string withoutText(const StepsWithout& steps, int rank, const std::string& node) {
  const double seconds = steps.without({rank});
  const std::string with = millisecondsOf(steps.measuredSeconds), without = millisecondsOf(seconds);
  const bool isNoShorter = seconds >= steps.measuredSeconds || with == without;
  return fmt::format(
      "without rank {} ({}) a step {} (steps {} to {} replayed, with an error of {:+.1f} %)", rank,
      node,
      isNoShorter ? fmt::format("still takes {} ms", with)
                  : fmt::format("takes {} ms instead of {}", without, with),
      steps.first, steps.last, 100 * steps.error);
}

}  // namespace lockstep::app
