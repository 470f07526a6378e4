// HeatMap: one measure of a StepMatrix as a map of rank × step, reduced to pixels. A value is the
// greater the worse; a pixel shows the maximum of its values, so one slow step of one rank is
// visible at any zoom. Of a matrix whose cells have several steps, a step has the value of its
// cell. No threads, no I/O.
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
  // Relative: the difference from the median of all ranks in the step, as a fraction of that step's
  // median step time. Otherwise seconds. Of a GPU clock: how far it is below the median, as a
  // fraction of that; otherwise negated, −MHz.
  void setMeasure(StepMeasure measure, bool relative);
  StepMeasure measure() const { return measure_; }
  bool isRelative() const { return relative_; }

  // Reads about `cells` new values from the matrix. Returns true when none are left. Call again
  // after setMeasure(). It begins anew, with no values, when the stride of the matrix has changed.
  bool update(StepMatrix& matrix, std::size_t cells);

  int ranks() const { return static_cast<int>(rows_.size()); }
  std::int64_t steps() const { return steps_; }
  std::int64_t stride() const { return stride_; }  // steps of a cell
  float value(int rank, std::int64_t step) const;  // NaN: unknown
  // Returns the value of the strongest colour, a round number that few values exceed: 0.05 … 5 for
  // relative maps, otherwise seconds or MHz. 0: there are no values.
  double scale() const;

  // Reduces steps [firstStep, firstStep + stepSpan) of the rows to width × height pixels, row by
  // row; NaN: no value. `order` has the rank of each row; rows [firstRow, firstRow + rowSpan).
  // Steps and rows may be fractional.
  struct Window {
    double firstStep = 1, stepSpan = 1, firstRow = 0, rowSpan = 1;
    int width = 0, height = 0;
  };
  void reduce(const Window& window, std::span<const int> order, std::vector<float>& out) const;

 private:
  static constexpr int kBlock = 4;  // values that one value of the next level covers
  void clear();
  void buildLevels(std::int64_t from, std::int64_t to);

  StepMeasure measure_ = StepMeasure::kCompute;
  bool relative_ = true;
  std::int64_t steps_ = 0, stride_ = 1;  // of the matrix
  std::int64_t done_ = 0;                // cells that have been read
  // by rank, level (each value is the maximum of kBlock values of the level below), cell
  std::vector<std::vector<std::vector<float>>> rows_;
};

enum class RowOrder : std::uint8_t { kRank, kNode, kCost };
// Returns the ranks in row order: by number; by node, then number; or by the mean of the measure,
// the worst first. `nodes` are the ranks' nodes; shorter if some are not known.
std::vector<int> rowOrder(const StepMatrix& matrix, RowOrder by, StepMeasure measure,
                          std::span<const std::string> nodes);

}  // namespace lockstep::app
