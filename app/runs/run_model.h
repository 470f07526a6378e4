// RunModel: a run as window and command line show it: row, progress, time left, pace, epochs,
// breakdown and straggler. Built from what the history has and from a recorder's updates; both only
// lay it out. No threads, no clock, no I/O: `wallNs` is wallNow(), `now` monotonicNow().
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "app/history/history.h"
#include "app/runs/run_progress.h"
#include "app/runs/run_update.h"
#include "engine/base/clock.h"

namespace lockstep::app {

class RunModel {
 public:
  void begin(RunRow row, RunScope scope);

  // Idempotent, as RunProgress.
  void add(const RunUpdate& update, Nanoseconds now);
  void addSeries(const RunBatch::Series& series, Nanoseconds now);
  void addEpoch(const EpochRow& epoch);

  const RunRow& row() const { return row_; }
  bool over() const { return isFinal(row_.phase); }
  const RunProgress& progress() const { return progress_; }
  // Epochs of this run itself, in order.
  const std::vector<EpochRow>& epochs() const { return epochs_; }
  // The last epoch that has an evaluation; null: none.
  const EpochRow* lastEvaluated() const;
  // Of all ranks; empty: not known.
  const std::vector<StepBreakdown>& breakdown() const { return breakdown_; }
  const std::optional<Straggler>& slow() const { return slow_; }

  std::int64_t step() const;  // the last one completed; 0: none
  // The row's figures, with what has come since.
  RunFigures figures() const;
  double elapsedSeconds(std::int64_t wallNs) const;  // 0: not started
  // Negative: not known, or the run has ended.
  double secondsLeft(std::int64_t wallNs) const;
  // Seconds without a step, if that is long; 0: steps come, or the run has ended.
  double stalledSeconds(Nanoseconds now) const;
  // Of a run under way the pace of its last steps, 0 while it is stalled; of one that has ended the
  // mean over it.
  Pace pace(Nanoseconds now) const;

 private:
  RunRow row_;
  RunProgress progress_;
  std::vector<EpochRow> epochs_;
  std::vector<StepBreakdown> breakdown_;
  std::optional<Straggler> slow_;
};

}  // namespace lockstep::app
