// StepMatrix: the time that every rank spent on every step, by measure, and the clock of its GPU,
// for the heat map and its table. Filled from a run's series, from the history or from a recorder.
// No threads, no I/O.
//
// A cell, of 32 bytes (4 more after a step in which the rank's process did not run, and 4 more with
// a GPU clock), is one step of one rank. When there are as many as the matrix may have, pairs of
// neighbours become one, again and again: a cell then has the greatest time of each measure, and
// the lowest clock, in stride() steps, so that a slow step stays visible. Its sums are of greatest
// parts.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "app/history/run_data.h"

namespace lockstep::app {

// Seconds, except kGpuClock, in MHz. Compute and communication are sums: forward + backward +
// optimizer, and waiting + transfer. kStalled, a part of the transfer, is reported where it is not
// 0.
enum class StepMeasure : std::uint8_t {
  kStep,
  kData,
  kForward,
  kBackward,
  kWaiting,
  kTransfer,
  kOptimizer,
  kCompute,
  kCommunication,
  kGpuClock,
  kStalled
};
// Whether low values mean a slow rank, rather than high ones.
inline constexpr bool isLowBad(StepMeasure measure) { return measure == StepMeasure::kGpuClock; }

class StepMatrix {
 public:
  static constexpr std::size_t kMostCells = std::size_t{1} << 24;  // 512 to 640 MiB

  // It is of the steps after `before`: earlier ones are not taken.
  explicit StepMatrix(std::size_t mostCells = kMostCells, std::int64_t before = 0)
      : mostCells_(mostCells), before_(before), steps_(before) {}

  static bool takes(std::string_view series);
  // Takes a series "rank/<r>/step", "…/data", … or "…/began", whose steps grow: a step that is not
  // beyond the last one is not taken again. Those of a preview come again, after what is missing.
  // Returns false for any other series.
  bool add(const RunBatch::Series& series, bool preview = false);

  int ranks() const { return static_cast<int>(rows_.size()); }
  std::int64_t steps() const { return steps_; }    // last step reported by any rank
  std::int64_t stride() const { return stride_; }  // steps of a cell; a power of two
  // Cells of a rank, counted from 0.
  std::int64_t cells() const { return (steps_ - before_ + stride_ - 1) / stride_; }
  std::int64_t cellOf(std::int64_t step) const { return (step - before_ - 1) / stride_; }
  std::int64_t firstOf(std::int64_t cell) const { return before_ + cell * stride_ + 1; }  // step
  // The first and the last step of the step's cell.
  std::pair<std::int64_t, std::int64_t> stepsOf(std::int64_t step) const {
    const std::int64_t first = firstOf(cellOf(step));
    return {first, std::min(first + stride_ - 1, std::max(first, steps_))};
  }
  bool has(StepMeasure measure) const;  // whether any rank has reported it
  // Of the step's cell. NaN: not reported by the rank. Steps count from 1.
  float value(StepMeasure measure, int rank, std::int64_t step) const;
  // Writes the values of cells [from, from + count) to `out`.
  void read(StepMeasure measure, int rank, std::int64_t from, std::size_t count, float* out) const;
  double mean(StepMeasure measure, int rank) const;  // over reported steps; NaN: none
  // The wall clock of the rank's node when the step's cell began, in seconds; NaN: unknown.
  double began(int rank, std::int64_t step) const;
  // Returns the first step with a value added since the last call; steps() + 1: none.
  std::int64_t takeChanged();

 private:
  static constexpr int kStored = 10;  // all measures except the sums, and the begin of the step
  struct Row {
    std::array<std::vector<float>, kStored> values;  // by cell; begin: relative to origin_
    std::array<double, kStored> sum{};
    std::array<std::int64_t, kStored> count{};
    std::array<std::int64_t, kStored> last{};  // step, previews apart
  };
  std::size_t cellsOfARank() const { return mostCells_ / std::max<std::size_t>(1, rows_.size()); }
  void makeRoom();  // for all ranks' steps

  std::size_t mostCells_;
  std::int64_t before_;
  std::vector<Row> rows_;  // by rank
  std::int64_t steps_, stride_ = 1, changed_ = 1;
  double origin_ = 0;  // seconds; the first begin received
};

}  // namespace lockstep::app
