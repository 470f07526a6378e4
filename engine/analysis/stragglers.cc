#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/analysis/analysis.h"
#include "engine/base/statistics.h"

namespace lockstep::analysis {
namespace {

constexpr std::size_t kWindowSteps = 20;
constexpr std::size_t kMaxSteps = 2048;
constexpr double kShortSeconds = 0.2, kLongSeconds = 2.5;
constexpr double kEverySeconds = 0.01;  // step time between two evaluations
constexpr double kNamedShare = 0.2, kClearedShare = 0.1;
constexpr double kSameRank = 0.8;  // fraction of the late steps
constexpr double kMostSteps = 0.6;
constexpr double kLate = 0.25;  // fraction of the median step
constexpr double kBurstSeconds = 0.05, kStopSeconds = 0.12;
constexpr double kFreezeSeconds = 0.03, kLongFreezeSeconds = 0.1;
constexpr double kChance = 1e-5;

// Number of late steps of one rank that cannot be chance: world^(1−k) ≤ kChance.
int steadySteps(int world) {
  const double k = 1 - std::log(kChance) / std::log(static_cast<double>(world));
  return std::max(4, static_cast<int>(std::ceil(k)));
}

double ownSeconds(const StepSample& sample) {
  const double work = sample.data + sample.forward + sample.backward;
  if (sample.arrival <= sample.begin) return work;
  return std::max(work, static_cast<double>(sample.arrival - sample.begin) * 1e-9);
}

std::vector<double> valuesOf(const std::vector<StepSample>& samples, double StepSample::*phase) {
  std::vector<double> out;
  for (const StepSample& sample : samples) out.push_back(sample.*phase);
  return out;
}

// Returns the phase's seconds of each rank minus the median rank's.
std::vector<double> overMiddle(const std::vector<StepSample>& samples, double StepSample::*phase) {
  std::vector<double> values = valuesOf(samples, phase);
  const double middle = lowerMedian(values);
  for (double& value : values) value -= middle;
  return values;
}

}  // namespace

double stalledSeconds(const StepSample& sample, Nanoseconds lastArrival) {
  if (sample.arrival <= sample.begin) return 0;
  const double waiting = static_cast<double>(lastArrival - sample.arrival) * 1e-9;
  return std::clamp(sample.communication - waiting, 0.0, std::max(sample.frozenArrived, 0.0));
}

std::string_view slowPhaseName(SlowPhase phase) {
  switch (phase) {
    case SlowPhase::kData:
      return "data";
    case SlowPhase::kForward:
      return "forward";
    case SlowPhase::kBackward:
      return "backward";
    case SlowPhase::kTransfer:
      return "transfer";
    case SlowPhase::kOptimizer:
      return "optimizer";
  }
  return "forward";
}

std::vector<double> usualSeconds(const std::vector<double>& own,
                                 const std::vector<double>& samples) {
  std::vector<double> out(own.size(), lowerMedian(own));
  if (samples.size() != own.size()) return out;
  std::vector<double> perSample;
  for (std::size_t r = 0; r < own.size(); ++r)
    if (samples[r] > 0) perSample.push_back(own[r] / samples[r]);
  if (perSample.empty()) return out;
  const double middle = lowerMedian(std::move(perSample));
  for (std::size_t r = 0; r < own.size(); ++r) out[r] = std::max(out[r], middle * samples[r]);
  return out;
}

std::vector<double> excessSeconds(const std::vector<double>& own,
                                  const std::vector<double>& usual) {
  std::size_t longest = 0;
  double first = 0, second = 0;  // of the ranks' times, at most as usual
  for (std::size_t r = 0; r < own.size(); ++r) {
    const double time = std::min(own[r], usual[r]);
    if (time > first) {
      second = std::exchange(first, time);
      longest = r;
    } else {
      second = std::max(second, time);
    }
  }
  std::vector<double> out;
  for (std::size_t r = 0; r < own.size(); ++r)
    out.push_back(std::max(own[r] - std::max(usual[r], r == longest ? second : first), 0.0));
  return out;
}

std::vector<double> StragglerFinder::overUsual(const std::vector<StepSample>& samples,
                                               double StepSample::*phase) const {
  std::vector<double> values = valuesOf(samples, phase);
  const std::vector<double> usually = usualSeconds(values, samples_);
  for (std::size_t r = 0; r < values.size(); ++r) values[r] -= usually[r];
  return values;
}

// Returns the first step of the window: the last kWindowSteps steps spanning at least `seconds`, as
// far as available.
std::size_t StragglerFinder::windowBegin(double seconds) const {
  std::size_t begin = steps_.size();
  double covered = 0;
  while (begin > 0 && (steps_.size() - begin < kWindowSteps || covered < seconds)) {
    covered += steps_[--begin].seconds;
  }
  return begin;
}

double StragglerFinder::medianStep(std::size_t begin) const {
  std::vector<double> seconds;
  for (std::size_t i = begin; i < steps_.size(); ++i) seconds.push_back(steps_[i].seconds);
  return lowerMedian(std::move(seconds));
}

BesideOthers StragglerFinder::beside(std::size_t begin, std::size_t rank,
                                     double Rank::*figure) const {
  BesideOthers sum;
  for (std::size_t i = begin; i < steps_.size(); ++i) {
    const std::vector<Rank>& ranks = steps_[i].ranks;
    std::vector<double> others;
    for (std::size_t r = 0; r < ranks.size(); ++r)
      if (r != rank) others.push_back(ranks[r].*figure);
    sum.own += ranks[rank].*figure;
    sum.others += lowerMedian(std::move(others));
  }
  const auto count = static_cast<double>(steps_.size() - begin);
  return {sum.own / count, sum.others / count};
}

bool StragglerFinder::freezesIn(std::size_t begin, int rank) const {
  const auto r = static_cast<std::size_t>(rank);
  double total = 0, lost = 0;
  int freezes = 0, freezesAny = 0, longApart = 0;
  std::size_t last = 0;
  for (std::size_t i = begin; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    const double frozen = step.ranks[r].frozen;
    double worst = 0;
    for (const Rank& other : step.ranks) worst = std::max(worst, other.frozen);
    freezesAny += worst >= kFreezeSeconds ? 1 : 0;
    const bool isFreeze = frozen >= kFreezeSeconds;
    if (freezes == 0 && !isFreeze) continue;
    total += step.seconds;
    lost += frozen;
    if (!isFreeze) continue;
    ++freezes;
    if (frozen < kLongFreezeSeconds) continue;
    if (longApart == 0 || i > last + 1) ++longApart;
    last = i;
  }
  return (freezes >= 3 || longApart >= 2) && freezes >= kSameRank * freezesAny &&
         lost >= kNamedShare * total;
}

bool StragglerFinder::slowIn(std::size_t begin, int rank) const {
  if (freezesIn(begin, rank)) return true;
  const auto r = static_cast<std::size_t>(rank);
  const double median = medianStep(begin);
  const double late = kLate * median;
  const double burst = std::max(kBurstSeconds, 0.75 * median);
  const double stop = std::max(kStopSeconds, 0.75 * median);
  const double longStop = std::max(kStopSeconds, 2 * median);
  double total = 0, lost = 0;
  int lateHere = 0, lateAny = 0, bursts = 0, burstsAny = 0;
  int stops = 0, stopsAny = 0, longStops = 0;
  std::size_t lastLong = 0;
  for (std::size_t i = begin; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    const double excess = step.ranks[r].excess;
    double worst = 0;
    for (const Rank& other : step.ranks) worst = std::max(worst, other.excess);
    total += step.seconds;
    lost += excess;
    lateHere += excess >= late ? 1 : 0;
    lateAny += worst >= late ? 1 : 0;
    bursts += excess >= burst ? 1 : 0;
    burstsAny += worst >= burst ? 1 : 0;
    stops += excess >= stop ? 1 : 0;
    stopsAny += worst >= stop ? 1 : 0;
    if (excess >= longStop) {
      if (longStops == 0 || i > lastLong + 1) ++longStops;
      lastLong = i;
    }
  }
  if (lost < kNamedShare * total) return false;
  const int enough = steadySteps(world_);
  const auto most = kMostSteps * static_cast<double>(steps_.size() - begin);
  const bool steady = lateHere >= enough && lateHere >= most && lateHere >= kSameRank * lateAny;
  const bool inBursts = bursts >= enough && bursts >= kSameRank * burstsAny;
  const bool inStops = (longStops >= 2 || stops >= 3) && stops >= kSameRank * stopsAny;
  return steady || inBursts || inStops;
}

Straggler StragglerFinder::describe(std::size_t begin, int rank) const {
  const auto r = static_cast<std::size_t>(rank);
  const double late = kLate * medianStep(begin);
  Straggler result;
  result.rank = rank;
  double total = 0, lost = 0, frozen = 0, own = 0, expected = 0;
  double data = 0, forward = 0, backward = 0, transfer = 0, optimizer = 0;
  for (std::size_t i = begin; i < steps_.size(); ++i) {
    const Rank& here = steps_[i].ranks[r];
    total += steps_[i].seconds;
    lost += here.excess;
    frozen += here.frozen;
    own += here.own;
    expected += here.usual;
    // A freeze is a delay however long the step is.
    if (here.excess < late && here.frozen < kFreezeSeconds) continue;
    if (result.since == 0) result.since = steps_[i].step;
    data += here.data;
    forward += here.forward;
    backward += here.backward;
    transfer += here.stalled;
    optimizer += here.optimizer;
  }
  const double most = std::max({data, forward, backward, transfer, optimizer});
  result.phase = most == data       ? SlowPhase::kData
                 : most == forward  ? SlowPhase::kForward
                 : most == backward ? SlowPhase::kBackward
                 : most == transfer ? SlowPhase::kTransfer
                                    : SlowPhase::kOptimizer;
  result.factor = expected > 0 ? own / expected : 1;
  result.lostShare = total > 0 ? lost / total : 0;
  result.frozenShare = total > 0 ? frozen / total : 0;
  const auto steps = static_cast<double>(steps_.size() - begin);
  result.lostPerStep = lost / steps;
  result.stepSeconds = total / steps;
  result.reading = beside(begin, r, &Rank::reading);
  result.elements = beside(begin, r, &Rank::elements);
  return result;
}

void StragglerFinder::add(const std::vector<StepSample>& samples) {
  if (world_ < 2 || samples.size() != static_cast<std::size_t>(world_)) return;
  const bool follows = samples[0].step == lastStep_ + 1 && !lastOptimizer_.empty();
  std::vector<double> own;
  Nanoseconds lastArrival = 0;
  for (const StepSample& sample : samples) lastArrival = std::max(lastArrival, sample.arrival);
  for (std::size_t r = 0; r < samples.size(); ++r) {
    own.push_back(ownSeconds(samples[r]) + (follows ? lastOptimizer_[r] : 0));
  }
  lastStep_ = samples[0].step;
  lastOptimizer_.clear();
  for (const StepSample& sample : samples) lastOptimizer_.push_back(sample.optimizer);
  if (++seen_ <= kWarmUpSteps) return;
  Step step;
  step.step = samples[0].step;
  const std::vector<double> usually = usualSeconds(own, samples_),
                            late = excessSeconds(own, usually);
  const std::vector<double> frozen = overMiddle(samples, &StepSample::frozen);
  const std::vector<double> data = overUsual(samples, &StepSample::data);
  const std::vector<double> forward = overUsual(samples, &StepSample::forward);
  const std::vector<double> backward = overUsual(samples, &StepSample::backward);
  const std::vector<double> optimizer = overMiddle(samples, &StepSample::optimizer);
  for (std::size_t r = 0; r < samples.size(); ++r) {
    const StepSample& sample = samples[r];
    step.seconds = std::max(step.seconds, static_cast<double>(sample.end - sample.begin) * 1e-9);
    const double stalled = stalledSeconds(sample, lastArrival);
    const double excess = late[r] + stalled;
    step.ranks.push_back({own[r] + stalled, usually[r], excess, std::clamp(frozen[r], 0.0, excess),
                          stalled, data[r], forward[r], backward[r], optimizer[r], sample.reading,
                          sample.elements});
  }
  steps_.push_back(std::move(step));
  covered_ += steps_.back().seconds;
  // Drops what the long window does not need.
  while (steps_.size() > kMaxSteps ||
         (steps_.size() > kWindowSteps && covered_ - steps_.front().seconds >= kLongSeconds)) {
    covered_ -= steps_.front().seconds;
    steps_.pop_front();
  }
  for (Straggler& known : current_)
    known.lostSeconds += steps_.back().ranks[static_cast<std::size_t>(known.rank)].excess;
  unseenSeconds_ += steps_.back().seconds;
  if (unseenSeconds_ < kEverySeconds) return;
  unseenSeconds_ = 0;
  look();
}

void StragglerFinder::look() {
  const std::size_t shortBegin = windowBegin(kShortSeconds);
  std::vector<Straggler> named;
  for (int rank = 0; rank < world_; ++rank) {
    const auto known = std::find_if(current_.begin(), current_.end(),
                                    [&](const Straggler& s) { return s.rank == rank; });
    const bool slowNow = slowIn(shortBegin, rank);
    if (!slowNow && !slowIn(0, rank)) {
      if (known == current_.end()) continue;
      Straggler still = describe(0, rank);
      if (still.lostShare < kClearedShare) continue;
      still.since = known->since;
      still.lostSeconds = known->lostSeconds;
      still.phase = known->phase;
      named.push_back(still);
      continue;
    }
    Straggler straggler = describe(slowNow ? shortBegin : 0, rank);
    if (known != current_.end()) {
      straggler.since = known->since;
      straggler.lostSeconds = known->lostSeconds;
    } else {
      for (const Step& step : steps_)
        if (step.step >= straggler.since)
          straggler.lostSeconds += step.ranks[static_cast<std::size_t>(rank)].excess;
    }
    named.push_back(straggler);
  }
  // Without them, a step is shorter by the gap between the slowest of them and the slowest other
  // rank.
  const auto isNamed = [&](std::size_t rank) {
    return std::any_of(named.begin(), named.end(), [&](const Straggler& s) {
      return static_cast<std::size_t>(s.rank) == rank;
    });
  };
  double gained = 0;
  const std::size_t count = steps_.size() - shortBegin;
  for (std::size_t i = shortBegin; !named.empty() && i < steps_.size(); ++i) {
    double slowest = 0, others = 0;
    for (std::size_t r = 0; r < steps_[i].ranks.size(); ++r) {
      double& longest = isNamed(r) ? slowest : others;
      longest = std::max(longest, steps_[i].ranks[r].own);
    }
    gained += std::max(slowest - others, 0.0) / static_cast<double>(count);
  }
  double mean = 0;
  for (std::size_t i = shortBegin; i < steps_.size(); ++i) {
    mean += steps_[i].seconds / static_cast<double>(count);
  }
  for (Straggler& straggler : named) {
    straggler.stepSeconds = mean;
    straggler.withoutSeconds = std::max(mean - gained, 0.0);
  }
  current_ = std::move(named);
}

}  // namespace lockstep::analysis
