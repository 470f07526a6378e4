// RunModel: a run as window and command line show it: row, progress, time left, pace, epochs,
// breakdown and straggler. Built from history and a recorder's updates; window and CLI only lay it
// out. No threads, no clock, no I/O: `wallNs` is wallNow(), `now` monotonicNow().
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "app/history/run_data.h"
#include "app/history/run_row.h"
#include "app/runs/run_progress.h"
#include "app/runs/run_update.h"
#include "engine/base/clock.h"

namespace lockstep::app {

class RunModel {
 public:
  void begin(RunRow row, RunScope scope);

  // Idempotent, like RunProgress.
  void add(const RunUpdate& update, Nanoseconds now);
  void addSeries(const RunBatch::Series& series, Nanoseconds now);
  void addEpoch(const EpochRow& epoch);

  const RunRow& row() const { return row_; }
  // Of a program of the user's own: it has values and output, but no steps that are measured.
  bool ofProgram() const;
  bool over() const { return isFinal(row_.phase); }
  // Returns what the run still waits for, trained to its end; empty: nothing.
  Message awaited() const { return over() ? Message() : awaited_; }
  const RunProgress& progress() const { return progress_; }
  // Returns the epochs of this run, in order.
  const std::vector<EpochRow>& epochs() const { return epochs_; }
  // Returns the last epoch with an evaluation; null if there is none.
  const EpochRow* lastEvaluated() const;
  // Returns the breakdown of all ranks; empty: unknown.
  const std::vector<StepBreakdown>& breakdown() const { return breakdown_; }
  const std::optional<Straggler>& slow() const { return slow_; }

  std::int64_t step() const;  // the last one completed; 0: none
  // Returns the row's figures, updated with later records.
  RunFigures figures() const;
  double elapsedSeconds(std::int64_t wallNs) const;  // 0: not started
  // Negative: unknown, or the run has ended.
  double secondsLeft(std::int64_t wallNs) const;
  // Returns the seconds without a step if they are unusually many; else 0.
  double stalledSeconds(Nanoseconds now) const;
  // Returns the pace of the last steps of a running run, 0 while it is stalled; of an ended run the
  // mean.
  Pace pace(Nanoseconds now) const;

 private:
  RunRow row_;
  RunProgress progress_;
  std::int64_t previewStep_ = 0;
  std::vector<EpochRow> epochs_;
  std::vector<StepBreakdown> breakdown_;
  std::optional<Straggler> slow_;
  Message awaited_;
};

}  // namespace lockstep::app
