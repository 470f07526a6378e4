#include "app/runs/rank_watch.h"

#include <algorithm>
#include <vector>

#include "engine/base/statistics.h"

namespace lockstep::app {
namespace {

constexpr int kHaltedSamples = 4;
constexpr double kFade = 0.85;      // of older samples, at each new one
constexpr double kQuickFade = 0.7;  // of samples that are means since the one before
constexpr double kStoppedShare = 0.05, kThrottledShare = 0.1, kCrowdedShare = 0.15;
constexpr double kAboveOthers = 1.5;
constexpr double kDiskFaults = 50;  // per second; each takes from 0.1 ms to 10 ms
constexpr double kExplained = 0.5;  // of what a rank costs, at least
constexpr double kDiskBusy = 0.5, kDiskAboveOthers = 2;
constexpr double kMoreData = 1.2, kPerData = 1.25;
constexpr double kLowClock = 0.85;

using analysis::BesideOthers;

bool isAbove(const BesideOthers& figure, double least) {
  return figure.own > least && figure.own > kAboveOthers * figure.others;
}

bool isLow(const BesideOthers& clock) {
  return clock.own > 0 && clock.own < kLowClock * clock.others;
}

// Batches are read ahead: what a rank waits for them in a step is less than what its loader waits
// for their files.
bool waitsForFiles(const analysis::Straggler& slow) {
  return slow.phase == analysis::SlowPhase::kData &&
         slow.reading.own > kAboveOthers * slow.reading.others &&
         slow.reading.own - slow.reading.others > kExplained * slow.lostPerStep;
}

// Of ranks whose loaders do not tell how long they wait: where one does, and did not, its node's
// disk is busy for others.
bool isDiskBusier(const analysis::Straggler& slow, const std::optional<BesideOthers>& busy) {
  return slow.reading.own < 0 && slow.phase == analysis::SlowPhase::kData && busy &&
         busy->own > kDiskBusy && busy->own > kDiskAboveOthers * busy->others;
}

// The time of a layer grows as its data, or, of attention, as their square; to be told, that has
// to explain what the rank takes beyond the others.
bool hasMoreData(const analysis::Straggler& slow) {
  const auto& [own, others] = slow.elements;
  if (others <= 0 || own <= kMoreData * others) return false;
  const double square = (own / others) * (own / others);
  return slow.factor - 1 < kPerData * (square - 1);
}

}  // namespace

void RankWatch::take(const std::string& node, double seconds, const run::v1::NodeSample& sample) {
  for (const auto& rank : sample.rank()) take(node, seconds, rank);
  if (!sample.has_disk_busy()) return;
  Disk& disk = disks_[node];
  disk.seen = disk.seen * kQuickFade + 1;
  disk.busy = disk.busy * kQuickFade + sample.disk_busy();
}

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

bool RankWatch::hasRank(const std::string& node) const {
  return std::any_of(loads_.begin(), loads_.end(),
                     [&](const auto& one) { return one.second.node == node; });
}

std::optional<analysis::BesideOthers> RankWatch::diskBusy(const std::string& node) const {
  const auto own = disks_.find(node);
  if (own == disks_.end()) return std::nullopt;
  std::vector<double> others;
  for (const auto& [name, disk] : disks_)
    if (name != node && hasRank(name)) others.push_back(disk.busy / disk.seen);
  if (others.empty()) return std::nullopt;
  return analysis::BesideOthers{own->second.busy / own->second.seen,
                                lowerMedian(std::move(others))};
}

// A rank's figures beside the median of the other ranks.
struct RankWatch::Compared {
  Load own;
  double stopped = 0, throttled = 0;  // shares of the time
  BesideOthers waiting, diskFaults;
  std::optional<BesideOthers> diskBusy;
  std::optional<GpuWatch::Figures> gpu;
  BesideOthers power;
  BesideOthers clock;  // of GPUs with the same greatest clock
  // A run whose GPUs all have narrow links has no rank that is slow by its link.
  bool isNarrow = false;
};

RankWatch::Compared RankWatch::compare(int rank, const GpuWatch& gpus) const {
  const auto found = loads_.find(rank);
  Compared out{.own = found == loads_.end() ? Load{.seen = 1} : found->second};
  const auto figures = [&](const Load& load) {
    return load.gpu < 0 ? std::nullopt : gpus.figures(load.node, load.gpu);
  };
  const auto isNarrow = [](const GpuWatch::Figures& gpu) { return gpu.lanes < gpu.lanesMax; };
  out.gpu = figures(out.own);
  std::vector<double> waitings, diskFaults, powers, clocks;
  bool allNarrow = true;
  for (const auto& [other, load] : loads_) {
    if (other == rank) continue;
    waitings.push_back(load.waiting / load.seen);
    diskFaults.push_back(load.diskFaults / load.seen);
    const auto gpu = figures(load);
    if (!gpu) continue;
    powers.push_back(gpu->power);
    if (out.gpu && gpu->clock > 0 && gpu->clockMax == out.gpu->clockMax)
      clocks.push_back(gpu->clock);
    allNarrow = allNarrow && isNarrow(*gpu);
  }
  out.stopped = out.own.stopped / out.own.seen;
  out.throttled = out.own.throttled / out.own.seen;
  out.waiting = {out.own.waiting / out.own.seen, median(std::move(waitings))};
  out.diskFaults = {out.own.diskFaults / out.own.seen, median(std::move(diskFaults))};
  out.diskBusy = diskBusy(out.own.node);
  if (!out.gpu) return out;
  out.power = {out.gpu->power, median(std::move(powers))};
  out.clock = {out.gpu->clock, median(std::move(clocks))};
  out.isNarrow = isNarrow(*out.gpu) && !allNarrow;
  return out;
}

SlowCause RankWatch::cause(const analysis::Straggler& straggler, const Compared& figures) {
  const double frozen = straggler.frozenShare;
  // A process that waits for its cores does not run, either.
  const bool isCrowded = isAbove(figures.waiting, kCrowdedShare);
  if (figures.stopped > kStoppedShare) return SlowCause::kStopped;
  if (figures.throttled > kThrottledShare) return SlowCause::kThrottled;
  if (frozen <= kStoppedShare && waitsForFiles(straggler)) return SlowCause::kDisk;
  if (isAbove(figures.diskFaults, kDiskFaults)) return SlowCause::kPaging;
  if (frozen > kStoppedShare && !isCrowded) return SlowCause::kFrozen;
  if (figures.gpu && figures.gpu->heat > kThrottledShare) return SlowCause::kGpuHeat;
  if (isCrowded) return SlowCause::kCrowded;
  const bool isClockLow = isLow(figures.clock);
  if (!isClockLow && hasMoreData(straggler)) return SlowCause::kMoreData;
  if (isAbove(figures.power, kThrottledShare)) return SlowCause::kGpuPower;
  if (isClockLow) return SlowCause::kGpuClock;
  // A program may tell of nothing but the data phase: what its GPU shows is the better evidence.
  if (isDiskBusier(straggler, figures.diskBusy)) return SlowCause::kDisk;
  return figures.isNarrow ? SlowCause::kGpuLink : SlowCause::kUnknown;
}

SlowEvidence RankWatch::evidence(const analysis::Straggler& straggler, const GpuWatch& gpus) const {
  const Compared figures = compare(straggler.rank, gpus);
  SlowEvidence out;
  out.cause = cause(straggler, figures);
  out.cores = figures.own.cpu / figures.own.seen;
  out.diskFaults = figures.diskFaults.own;
  out.elements = straggler.elements;
  switch (out.cause) {
    case SlowCause::kStopped:
      // The process's own report of freezes is more exact than sampling.
      out.share = straggler.frozenShare > 0 ? straggler.frozenShare : figures.stopped;
      break;
    case SlowCause::kThrottled:
      out.share = figures.throttled;
      break;
    case SlowCause::kFrozen:
      out.share = straggler.frozenShare;
      break;
    case SlowCause::kCrowded:
      out.share = figures.waiting.own;
      break;
    case SlowCause::kDisk:
      if (straggler.reading.own < 0)
        out.diskBusy = figures.diskBusy;
      else
        out.reading = straggler.reading;
      break;
    case SlowCause::kGpuHeat:
      out.share = figures.gpu->heat;
      break;
    case SlowCause::kGpuPower:
      out.share = figures.power.own;
      break;
    default:
      break;
  }
  out.share = std::min(out.share, 1.0);
  if (out.cause < SlowCause::kGpuHeat) return out;
  out.gpu = figures.own.gpu;
  out.clock = figures.clock;
  out.lanes = figures.gpu->lanes;
  out.lanesMax = figures.gpu->lanesMax;
  return out;
}

}  // namespace lockstep::app
