#include "app/runs/rank_watch.h"

#include <algorithm>
#include <vector>

#include "engine/base/statistics.h"

namespace lockstep::app {
namespace {

constexpr int kHaltedSamples = 4;
constexpr double kFade = 0.85;  // of older samples, at each new one
constexpr double kStoppedShare = 0.05, kThrottledShare = 0.1, kCrowdedShare = 0.15;
constexpr double kAboveOthers = 1.5;
constexpr double kDiskFaults = 50;  // per second; each takes from 0.1 ms to 10 ms

}  // namespace

void RankWatch::take(const std::string& node, double seconds, const run::v1::RankSample& sample) {
  Load& load = loads_[sample.rank()];
  load.seen = load.seen * kFade + 1;
  load.stopped = load.stopped * kFade + (sample.stopped() ? 1 : 0);
  load.cpu = load.cpu * kFade + sample.cpu();
  load.waiting = load.waiting * kFade + sample.waiting();
  load.throttled = load.throttled * kFade + sample.throttled();
  load.diskFaults = load.diskFaults * kFade + sample.disk_faults();
  load.at = seconds;
  load.stoppedInRow = sample.stopped() ? load.stoppedInRow + 1 : 0;
  if (load.stoppedInRow <= 1) load.stoppedAt = seconds;
  load.node = node;
  load.gpu = sample.has_gpu() ? sample.gpu() : -1;
}

void RankWatch::stepCompleted() {
  for (auto& [rank, load] : loads_) load.stoppedInRow = 0;
}

std::optional<RankWatch::Halted> RankWatch::halted() const {
  for (const auto& [rank, load] : loads_)
    if (load.stoppedInRow >= kHaltedSamples)
      return Halted{rank, std::max(load.at - load.stoppedAt, 0.0)};
  return std::nullopt;
}

SlowEvidence RankWatch::evidence(const analysis::Straggler& straggler, const GpuWatch& gpus) const {
  const auto found = loads_.find(straggler.rank);
  const Load own = found == loads_.end() ? Load{.seen = 1} : found->second;
  const auto figures = [&](const Load& load) {
    return load.gpu < 0 ? std::nullopt : gpus.figures(load.node, load.gpu);
  };
  const auto isNarrow = [](const GpuWatch::Figures& gpu) { return gpu.lanes < gpu.lanesMax; };
  // Of the other ranks. A run whose GPUs all have narrow links has no rank that is slow by its
  // link.
  std::vector<double> waitings, powers, diskFaults;
  bool allNarrow = true;
  for (const auto& [rank, load] : loads_) {
    if (rank == straggler.rank) continue;
    waitings.push_back(load.waiting / load.seen);
    diskFaults.push_back(load.diskFaults / load.seen);
    const auto gpu = figures(load);
    if (!gpu) continue;
    powers.push_back(gpu->power);
    allNarrow = allNarrow && isNarrow(*gpu);
  }
  const double stopped = own.stopped / own.seen, throttled = own.throttled / own.seen,
               waiting = own.waiting / own.seen;
  // A process that waits for its cores does not run, either.
  const bool isCrowded =
      waiting > kCrowdedShare && waiting > kAboveOthers * median(std::move(waitings));
  const auto gpu = figures(own);
  SlowEvidence result;
  result.cores = own.cpu / own.seen;
  result.diskFaults = own.diskFaults / own.seen;
  if (stopped > kStoppedShare) {
    result.cause = SlowCause::kStopped;
    // The process's own report of freezes is more exact than sampling.
    result.share = straggler.frozenShare > 0 ? straggler.frozenShare : stopped;
  } else if (throttled > kThrottledShare) {
    result.cause = SlowCause::kThrottled;
    result.share = throttled;
  } else if (result.diskFaults > kDiskFaults &&
             result.diskFaults > kAboveOthers * median(std::move(diskFaults))) {
    result.cause = SlowCause::kPaging;
  } else if (straggler.frozenShare > kStoppedShare && !isCrowded) {
    result.cause = SlowCause::kFrozen;
    result.share = straggler.frozenShare;
  } else if (gpu && gpu->heat > kThrottledShare) {
    result.cause = SlowCause::kGpuHeat;
    result.share = gpu->heat;
  } else if (isCrowded) {
    result.cause = SlowCause::kCrowded;
    result.share = waiting;
  } else if (gpu && gpu->power > kThrottledShare &&
             gpu->power > kAboveOthers * median(std::move(powers))) {
    result.cause = SlowCause::kGpuPower;
    result.share = gpu->power;
  } else if (gpu && isNarrow(*gpu) && !allNarrow) {
    result.cause = SlowCause::kGpuLink;
    result.lanes = gpu->lanes;
    result.lanesMax = gpu->lanesMax;
  }
  if (result.cause >= SlowCause::kGpuHeat) result.gpu = own.gpu;
  result.share = std::min(result.share, 1.0);
  return result;
}

}  // namespace lockstep::app
