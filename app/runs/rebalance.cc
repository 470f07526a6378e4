#include "app/runs/rebalance.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/base/statistics.h"
#include "engine/cluster/cuts.h"

namespace lockstep::app {
namespace {

constexpr std::size_t kLeastSteps = 5;
constexpr double kLeastGain = 0.01;  // of the slowest rank's time
constexpr std::array kMeasured{StepMeasure::kStep,      StepMeasure::kData,
                               StepMeasure::kForward,   StepMeasure::kBackward,
                               StepMeasure::kOptimizer, StepMeasure::kStalled};

// The ranks that have one share of the batch take as long as the slowest of them. Samples are those
// of a micro-batch.
struct ShareSpeed {
  std::int64_t samples = 0;
  double sampleSeconds = 0, fixedSeconds = 0;
};

Error notRebalanced(const Message& why) {
  Error error = makeError(Code::kFailedPrecondition, "the batch cannot be divided by speed");
  error.why = why;
  return error;
}

std::vector<std::size_t> knownCells(const StepTimes& times, std::size_t world) {
  std::vector<std::size_t> out;
  for (std::size_t cell = 0; cell < times.cells(); ++cell) {
    bool known = true;
    for (std::size_t rank = 0; rank < world && known; ++rank)
      known = std::all_of(kMeasured.begin(), kMeasured.end(), [&](StepMeasure measure) {
        return std::isfinite(times.of(measure, rank)[cell]);
      });
    if (known) out.push_back(cell);
  }
  return out;
}

double medianOf(const StepTimes& times, const std::vector<std::size_t>& cells, std::size_t rank,
                std::initializer_list<StepMeasure> measures) {
  std::vector<double> sums;
  for (const std::size_t cell : cells) {
    double sum = 0;
    for (const StepMeasure measure : measures) sum += times.of(measure, rank)[cell];
    sums.push_back(sum);
  }
  return median(std::move(sums));
}

double medianStep(const StepTimes& times, const std::vector<std::size_t>& cells,
                  std::size_t world) {
  std::vector<double> longest;
  for (const std::size_t cell : cells) {
    double seconds = 0;
    for (std::size_t rank = 0; rank < world; ++rank)
      seconds = std::max<double>(seconds, times.of(StepMeasure::kStep, rank)[cell]);
    longest.push_back(seconds);
  }
  return median(std::move(longest));
}

// Samples of each share with which the longest time is as short as it can be; at least `least`
// each. Precondition: the batch has as many.
std::vector<std::int64_t> divided(std::int64_t batch, const std::vector<ShareSpeed>& shares,
                                  std::int64_t least) {
  const auto withinSeconds = [&](double seconds, const ShareSpeed& share) {
    const double samples = (seconds - share.fixedSeconds) / std::max(share.sampleSeconds, 1e-12);
    return static_cast<std::int64_t>(
        std::clamp(samples, static_cast<double>(least), static_cast<double>(batch)));
  };
  const auto samplesIn = [&](double seconds) {
    std::int64_t sum = 0;
    for (const ShareSpeed& share : shares) sum += withinSeconds(seconds, share);
    return sum;
  };
  double low = 0, high = 0;
  for (const ShareSpeed& share : shares)
    high = std::max(high, share.fixedSeconds + static_cast<double>(batch) * share.sampleSeconds);
  constexpr int kHalvings = 100;
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = (low + high) / 2;
    (samplesIn(middle) <= batch ? low : high) = middle;
  }
  std::vector<std::int64_t> out;
  for (const ShareSpeed& share : shares) out.push_back(withinSeconds(low, share));
  const auto secondsOf = [&](std::size_t i) {
    return shares[i].fixedSeconds + static_cast<double>(out[i]) * shares[i].sampleSeconds;
  };
  for (std::int64_t left = batch - std::accumulate(out.begin(), out.end(), std::int64_t{0});
       left > 0; --left) {
    std::size_t best = 0;  // that takes the least time with one more
    for (std::size_t i = 1; i < out.size(); ++i)
      if (secondsOf(i) + shares[i].sampleSeconds < secondsOf(best) + shares[best].sampleSeconds)
        best = i;
    ++out[best];
  }
  return out;
}

double longest(const std::vector<ShareSpeed>& shares, const std::vector<std::int64_t>& samples) {
  double out = 0;
  for (std::size_t i = 0; i < shares.size(); ++i)
    out = std::max(
        out, shares[i].fixedSeconds + static_cast<double>(samples[i]) * shares[i].sampleSeconds);
  return out;
}

// Errors: kInvalidArgument where the planner refuses this division of the batch.
Status canBePlanned(const std::vector<std::int64_t>& samples, const PlanFacts& plan) {
  for (std::size_t i = 0; i < samples.size(); ++i)
    if (samples[i] % plan.unit != 0)
      return invalidArgument(
          "share {} of {} is {} samples, and batch norm takes statistics over "
          "{}, which one rank has; expected a multiple of {}",
          i + 1, samples.size(), samples[i], plan.unit, plan.unit);
  const std::vector<double> parts(samples.begin(), samples.end());
  if (plan.evaluateBatch == 0 ||
      cluster::leaveNoneEmpty(cluster::cutsBy(plan.evaluateBatch, parts)))
    return {};
  return invalidArgument("an evaluation is of {} samples, and a share would have none of them",
                         plan.evaluateBatch);
}

// The best division that can be planned, if it is worth it, else that of now.
std::vector<std::int64_t> proposed(const std::vector<std::int64_t>& now,
                                   const std::vector<ShareSpeed>& shares, const PlanFacts& plan) {
  const std::int64_t batch = std::accumulate(now.begin(), now.end(), std::int64_t{0});
  // An evaluation is divided as the batch is, and each share has a sample of it. `least`
  // counts units.
  std::int64_t least = 1;
  if (const std::int64_t parts = plan.evaluateBatch * plan.unit; parts > 0)
    least = std::max(least, (batch + parts - 1) / parts);
  if (batch % plan.unit != 0 || least * std::ssize(shares) * plan.unit > batch) return now;
  std::vector<ShareSpeed> ofUnits = shares;
  for (ShareSpeed& share : ofUnits) share.sampleSeconds *= static_cast<double>(plan.unit);
  std::vector<std::int64_t> then = divided(batch / plan.unit, ofUnits, least);
  for (std::int64_t& samples : then) samples *= plan.unit;
  if (longest(shares, then) > (1 - kLeastGain) * longest(shares, now)) return now;
  return canBePlanned(then, plan).ok() ? then : now;
}

Result<std::vector<std::int64_t>> samplesBy(const std::vector<double>& asked, std::int64_t batch,
                                            std::size_t shares) {
  if (asked.size() != shares)
    return invalidArgument("{} shares were given, and the batch is divided into {}", asked.size(),
                           shares);
  for (const double share : asked)
    if (!std::isfinite(share) || share <= 0)
      return invalidArgument("a share of the batch is a number above 0");
  const std::vector<std::int64_t> cuts = cluster::cutsBy(batch, asked);
  std::vector<std::int64_t> out;
  for (std::size_t i = 0; i < shares; ++i) out.push_back(cuts[i + 1] - cuts[i]);
  if (const auto none = std::find(out.begin(), out.end(), 0); none != out.end())
    return invalidArgument("share {} of {} is less than one sample of {}", none - out.begin() + 1,
                           shares, batch);
  return out;
}

}  // namespace

bool Rebalance::changes() const {
  return std::any_of(ranks.begin(), ranks.end(),
                     [](const RankSpeed& one) { return one.samples != one.proposed; });
}

Result<Rebalance> rebalanceOf(const StepTimes& times, int world, std::span<const std::string> nodes,
                              const PlanFacts& plan, std::int64_t last,
                              const std::vector<double>& asked) {
  if (plan.isAsynchronous)
    return notRebalanced("its training is asynchronous: its ranks do not wait for each other");
  if (!plan.evenShares.empty()) return notRebalanced(plan.evenShares);
  const std::int64_t micro = plan.microBatches;
  const std::vector<double> samples = plan.shares.of(world);
  const std::vector<int> shareOf = plan.shares.shareOf(world);
  if (samples.empty() || shareOf.empty()) return notRebalanced("the history has no plan of it");
  const auto ranks = static_cast<std::size_t>(world);
  if (times.ranks() < ranks) return notRebalanced("not all ranks have reported steps");
  std::vector<std::size_t> cells = knownCells(times, ranks);
  if (std::ssize(cells) > last) cells.erase(cells.begin(), cells.end() - last);
  if (cells.size() < kLeastSteps)
    return notRebalanced("all ranks have reported fewer than five steps with this division");
  Rebalance out;
  out.first = times.stepOf(cells.front());
  out.last = times.stepOf(cells.back()) + times.stride() - 1;
  std::vector<ShareSpeed> shares;
  for (std::size_t r = 0; r < ranks; ++r) {
    if (shareOf[r] < 0) continue;  // a server
    const double own = medianOf(times, cells, r, {StepMeasure::kForward, StepMeasure::kBackward});
    RankSpeed rank{.rank = static_cast<int>(r),
                   .node = r < nodes.size() ? nodes[r] : std::string(),
                   .samples = static_cast<std::int64_t>(samples[r])};
    rank.sampleSeconds = own / std::max(samples[r], 1.0);
    rank.fixedSeconds = medianOf(
        times, cells, r, {StepMeasure::kData, StepMeasure::kOptimizer, StepMeasure::kStalled});
    const auto at = static_cast<std::size_t>(shareOf[r]);
    if (at >= shares.size()) shares.resize(at + 1);
    shares[at].samples = rank.samples / micro;
    shares[at].sampleSeconds =
        std::max(shares[at].sampleSeconds, rank.sampleSeconds * static_cast<double>(micro));
    shares[at].fixedSeconds = std::max(shares[at].fixedSeconds, rank.fixedSeconds);
    out.ranks.push_back(std::move(rank));
  }
  if (shares.size() < 2) return notRebalanced("its ranks do not divide it");
  std::vector<std::int64_t> now;
  for (const ShareSpeed& share : shares) now.push_back(share.samples);
  std::vector<std::int64_t> then;
  if (!asked.empty()) {
    const std::int64_t batch = std::accumulate(now.begin(), now.end(), std::int64_t{0});
    LOCKSTEP_ASSIGN(then, samplesBy(asked, batch, shares.size()));
    LOCKSTEP_TRY(canBePlanned(then, plan));
  } else {
    then = proposed(now, shares, plan);
  }
  for (RankSpeed& rank : out.ranks)
    rank.proposed =
        then[static_cast<std::size_t>(shareOf[static_cast<std::size_t>(rank.rank)])] * micro;
  out.shares.assign(then.begin(), then.end());
  out.stepSeconds = medianStep(times, cells, ranks);
  out.proposedSeconds = out.stepSeconds + longest(shares, then) - longest(shares, now);
  return out;
}

}  // namespace lockstep::app
