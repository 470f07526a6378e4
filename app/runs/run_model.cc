#include "app/runs/run_model.h"

#include <algorithm>
#include <utility>

namespace lockstep::app {

void RunModel::begin(RunRow row, RunScope scope) {
  *this = RunModel();
  row_ = std::move(row);
  progress_.begin(std::move(scope));
}

void RunModel::add(const RunUpdate& update, Nanoseconds now) {
  if (update.preview) {
    for (const auto& series : update.series)
      if (series.name == "loss" && !series.points.empty())
        previewStep_ = static_cast<std::int64_t>(series.points.back().x);
    return;
  }
  if (update.row) row_ = *update.row;
  for (const auto& series : update.series) addSeries(series, now);
  for (const EpochRow& epoch : update.epochs) addEpoch(epoch);
  if (!update.breakdown.empty()) breakdown_ = update.breakdown;
  if (update.slowChanged) slow_ = update.slow;
  if (update.awaited) awaited_ = *update.awaited;
}

void RunModel::addSeries(const RunBatch::Series& series, Nanoseconds now) {
  progress_.addSeries(series, now);
}

void RunModel::addEpoch(const EpochRow& epoch) {
  progress_.addEpoch(epoch);
  const auto at =
      std::lower_bound(epochs_.begin(), epochs_.end(), epoch.epoch,
                       [](const EpochRow& one, std::int64_t number) { return one.epoch < number; });
  if (at == epochs_.end() || at->epoch != epoch.epoch)
    epochs_.insert(at, epoch);
  else if (epoch.evaluated())
    *at = epoch;
}

bool RunModel::ofProgram() const { return app::ofProgram(row_); }

const EpochRow* RunModel::lastEvaluated() const {
  const auto found = std::find_if(epochs_.rbegin(), epochs_.rend(),
                                  [](const EpochRow& epoch) { return epoch.evaluated(); });
  return found == epochs_.rend() ? nullptr : &*found;
}

std::int64_t RunModel::step() const {
  return std::max({progress_.step(), row_.figures.steps, previewStep_});
}

RunFigures RunModel::figures() const {
  RunFigures out = row_.figures;
  out.steps = step();
  if (!epochs_.empty() && epochs_.back().epoch > out.epochs) {
    out.epochs = epochs_.back().epoch;
    out.trainLoss = epochs_.back().trainLoss;
  }
  return out;
}

double RunModel::elapsedSeconds(std::int64_t wallNs) const {
  if (row_.startedNs == 0) return 0;
  const std::int64_t end = row_.finishedNs > 0 ? row_.finishedNs : wallNs;
  return std::max(0.0, static_cast<double>(end - row_.startedNs) * 1e-9);
}

double RunModel::secondsLeft(std::int64_t wallNs) const {
  return over() ? -1 : progress_.secondsLeft(elapsedSeconds(wallNs));
}

double RunModel::stalledSeconds(Nanoseconds now) const {
  return over() ? 0 : progress_.stalledSeconds(now);
}

Pace RunModel::pace(Nanoseconds now) const {
  if (over() && row_.figures.samplesPerSecond > 0) {
    const double mean = progress_.meanStepSeconds();
    return {mean > 0 ? mean : row_.measuredStepSeconds, row_.figures.samplesPerSecond};
  }
  return stalledSeconds(now) > 0 ? Pace() : progress_.pace();
}

}  // namespace lockstep::app
