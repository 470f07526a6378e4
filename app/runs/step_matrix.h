// StepMatrix: the time that every rank spent on every step, by measure, for the heat map and its
// table. Filled from a run's series, from the history or from a recorder. 32 bytes per rank and
// step. No threads, no I/O.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "app/history/run_data.h"

namespace lockstep::app {

// Seconds. The last two are sums: forward + backward + optimizer, and waiting + transfer.
enum class StepMeasure : std::uint8_t {
  kStep,
  kData,
  kForward,
  kBackward,
  kWaiting,
  kTransfer,
  kOptimizer,
  kCompute,
  kCommunication
};
inline constexpr int kStepMeasures = 9;

class StepMatrix {
 public:
  static bool takes(std::string_view series);
  // Takes a series "rank/<r>/step", "…/data", … or "…/began". Returns false for any other series.
  bool add(const RunBatch::Series& series);

  int ranks() const { return static_cast<int>(rows_.size()); }
  std::int64_t steps() const { return steps_; }  // last step reported by any rank
  // NaN: not reported by the rank. Steps count from 1.
  float seconds(StepMeasure measure, int rank, std::int64_t step) const;
  // Writes the values of steps [from, from + count) to `out`.
  void read(StepMeasure measure, int rank, std::int64_t from, std::size_t count, float* out) const;
  double mean(StepMeasure measure, int rank) const;  // over reported steps; NaN: none
  // The wall clock of the rank's node when the step began, in seconds; NaN: unknown.
  double began(int rank, std::int64_t step) const;
  // Returns the first step with a value added since the last call; steps() + 1: none.
  std::int64_t takeChanged();

 private:
  static constexpr int kStored = 8;  // all measures except the sums, and the begin of the step
  struct Row {
    std::array<std::vector<float>, kStored> values;  // by step − 1; begin: relative to origin_
    std::array<double, kStored> sum{};
    std::array<std::int64_t, kStored> count{};
  };

  std::vector<Row> rows_;  // by rank
  std::int64_t steps_ = 0, changed_ = 1;
  double origin_ = 0;  // seconds; the first begin received
};

}  // namespace lockstep::app
