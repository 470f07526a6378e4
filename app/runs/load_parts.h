// LoadParts: the loads of nodes among the curves of updates, collected and divided for a window.
// The loads of many GPUs are thousands of curves, sampled several times a second: what a window
// does for each curve would take more of its thread than what it does for the samples. No threads.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "app/history/run_data.h"

namespace lockstep::app {

class LoadParts {
 public:
  using Clock = std::chrono::steady_clock;
  // What was collected is due after this time, or once there are so many points.
  static constexpr std::chrono::milliseconds kEvery{500};
  static constexpr std::size_t kMostPoints = 50'000;
  // A window takes so many points in some milliseconds, even while it thins their curves.
  static constexpr std::size_t kPartPoints = 1000;

  // Moves the loads of nodes out of `series`.
  void collect(std::vector<RunBatch::Series>& series);
  // Returns what was collected, in parts of at most kPartPoints points; nothing until it is due,
  // unless `all` is asked for. The points of a curve stay in order.
  std::vector<std::vector<RunBatch::Series>> take(Clock::time_point now, bool all);

 private:
  std::map<std::string, std::vector<Point>> loads_;
  std::size_t points_ = 0;  // of all
  Clock::time_point due_{};
};

}  // namespace lockstep::app
