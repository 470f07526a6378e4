// HeatMap: one measure of a StepMatrix as a map of ranks by steps, reduced to pixels. A pixel shows
// the greatest of its values: one slow step of one rank is seen at any zoom. No threads, no I/O.
//
// A map of 1,024 ranks by 2,000 steps is built in about 0.1 s (in slices, see update) and reduced
// to a window's pixels in a few milliseconds.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "app/runs/step_matrix.h"

namespace lockstep::app {

class HeatMap {
 public:
  // Relative: the difference from the median of all ranks in the step, as a share of the median
  // step time of that step. Else seconds.
  void setMeasure(StepMeasure measure, bool relative);
  StepMeasure measure() const { return measure_; }
  bool isRelative() const { return relative_; }

  // Reads what the matrix took since, about `cells` values of it. Returns true when nothing is
  // left. To be called again after setMeasure().
  bool update(StepMatrix& matrix, std::size_t cells);

  int ranks() const { return static_cast<int>(rows_.size()); }
  std::int64_t steps() const { return steps_; }
  float value(int rank, std::int64_t step) const;  // NaN: unknown
  // The value that the strongest colour stands for, a round number that few values exceed: 0.05 …
  // 5 of relative maps, else seconds. 0: there are no values.
  double scale() const;

  // Reduces steps [firstStep, firstStep + stepSpan) of the rows to width × height pixels, row by
  // row; NaN: no value. `order` names the rank of each row; rows [firstRow, firstRow + rowSpan).
  // Steps and rows may be fractions of one.
  struct Window {
    double firstStep = 1, stepSpan = 1, firstRow = 0, rowSpan = 1;
    int width = 0, height = 0;
  };
  void reduce(const Window& window, std::span<const int> order, std::vector<float>& out) const;

 private:
  static constexpr int kBlock = 4;  // values of a level that one of the next level covers
  void buildLevels(std::int64_t from, std::int64_t to);

  StepMeasure measure_ = StepMeasure::kCompute;
  bool relative_ = true;
  std::int64_t steps_ = 0, done_ = 0;  // steps of the matrix; up to which they are read
  // by rank, level (each value the greatest of kBlock of the level below), step
  std::vector<std::vector<std::vector<float>>> rows_;
};

enum class RowOrder : std::uint8_t { kRank, kNode, kCost };
// Returns the ranks in the order of rows: by number; by node, then number; or those first whose
// mean of the measure is greatest. `nodes` are the ranks' nodes, fewer where they are not known.
std::vector<int> rowOrder(const StepMatrix& matrix, RowOrder by, StepMeasure measure,
                          std::span<const std::string> nodes);

}  // namespace lockstep::app
