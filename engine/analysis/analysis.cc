#include "engine/analysis/analysis.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace lockstep::analysis {
namespace {

constexpr std::size_t kRecentSteps = 20;
// The oldest incomplete step is given up once this many samples are pending, but not before this
// many steps are: ranks of a large run report some seconds apart.
constexpr std::size_t kMaxPendingSamples = std::size_t{1} << 17;
constexpr std::size_t kLeastPendingSteps = 1024;

}  // namespace

Breakdown& Breakdown::operator+=(const Breakdown& other) {
  data += other.data;
  forward += other.forward;
  backward += other.backward;
  waiting += other.waiting;
  transfer += other.transfer;
  optimizer += other.optimizer;
  stalled += other.stalled;
  return *this;
}

Breakdown Breakdown::operator*(double factor) const {
  return {data * factor,     forward * factor,   backward * factor, waiting * factor,
          transfer * factor, optimizer * factor, stalled * factor};
}

StepBreakdown breakDown(const std::vector<StepSample>& samples) {
  StepBreakdown result;
  if (samples.empty()) return result;
  result.step = samples[0].step;
  Nanoseconds last = 0;
  double least = std::numeric_limits<double>::infinity();
  bool arrivals = true;
  for (const StepSample& sample : samples) {
    last = std::max(last, sample.arrival);
    least = std::min(least, sample.communication);
    arrivals = arrivals && sample.arrival != 0;
    result.seconds =
        std::max(result.seconds, static_cast<double>(sample.end - sample.begin) * 1e-9);
  }
  for (const StepSample& sample : samples) {
    const double waited =
        arrivals ? static_cast<double>(last - sample.arrival) * 1e-9 : sample.communication - least;
    const double waiting = std::clamp(waited, 0.0, std::max(sample.communication, 0.0));
    result.ranks.push_back({sample.data, sample.forward, sample.backward, waiting,
                            std::max(sample.communication - waiting, 0.0), sample.optimizer,
                            stalledSeconds(sample, last)});
  }
  return result;
}

StepAnalyzer::StepAnalyzer(int world, std::vector<double> samples)
    : world_(world),
      finder_(world, std::move(samples)),
      newest_(static_cast<std::size_t>(std::max(world, 0))) {}

void StepAnalyzer::add(const StepSample& sample) {
  if (sample.rank < 0 || sample.rank >= world_ || sample.step <= done_) return;
  const auto rank = static_cast<std::size_t>(sample.rank);
  if (sample.step <= newest_[rank]) return;
  // What the rank has passed over never completes: steps between its last one and this, and this
  // one, if another rank has reported a later step but not this one.
  pending_.erase(pending_.upper_bound(newest_[rank]), pending_.lower_bound(sample.step));
  newest_[rank] = sample.step;
  if (sample.step >= latest_ || pending_.contains(sample.step)) {
    Pending& pending = pending_[sample.step];
    if (pending.samples.empty()) {
      pending.samples.assign(newest_.size(), StepSample{-1});
      pending.missing = world_;
    }
    pending.samples[rank] = sample;
    --pending.missing;
  }
  latest_ = std::max(latest_, sample.step);
  // Holds back a complete step while an earlier one may still complete.
  while (!pending_.empty()) {
    const auto first = pending_.begin();
    const bool complete = first->second.missing == 0;
    const std::size_t most = std::max(kMaxPendingSamples / newest_.size(), kLeastPendingSteps);
    if (!complete && pending_.size() <= most) return;
    done_ = first->first;
    if (complete) {
      finder_.add(first->second.samples);
      ready_.push_back(breakDown(first->second.samples));
      recent_.push_back(ready_.back());
      if (recent_.size() > kRecentSteps) recent_.pop_front();
    }
    pending_.erase(first);
  }
}

std::vector<StepBreakdown> StepAnalyzer::take() { return std::exchange(ready_, {}); }

StepBreakdown StepAnalyzer::recent() const {
  StepBreakdown mean;
  if (recent_.empty()) return mean;
  mean.step = recent_.back().step;
  mean.ranks.resize(static_cast<std::size_t>(world_));
  const double share = 1.0 / static_cast<double>(recent_.size());
  for (const StepBreakdown& step : recent_) {
    mean.seconds += step.seconds * share;
    for (std::size_t r = 0; r < mean.ranks.size(); ++r) mean.ranks[r] += step.ranks[r] * share;
  }
  return mean;
}

}  // namespace lockstep::analysis
