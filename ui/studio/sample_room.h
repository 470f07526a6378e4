// SampleRoom: shares kMostSamples samples, in about, among all lines of a run. Threads: GUI.
#pragma once

#include <memory>
#include <vector>

#include "ui/plots/series.h"

namespace lockstep::ui {

class SampleRoom {
 public:
  static constexpr std::size_t kMostSamples = 2'000'000;

  // Limits the line, and from time to time all others again. It is counted as long as it is held.
  void add(const std::shared_ptr<Series>& line);
  std::size_t limit() const;  // of samples, of each line at most

 private:
  std::size_t limitOf(std::size_t line) const;
  std::vector<std::weak_ptr<Series>> lines_;
  std::size_t shared_ = 0;  // so many lines there were when all limits were set
};

}  // namespace lockstep::ui
