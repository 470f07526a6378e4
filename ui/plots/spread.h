// Spread: what many lines do together, for plots with more lines than can be told apart. x is cut
// into stretches; for each it holds the range of all values and quartiles over the lines. A line
// without a sample in a stretch takes part with its value between the samples around it. When
// samples are appended or the last ones replaced, only the stretches from there on are made again,
// so that the cost of a live plot follows what is new. Threads: one.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "ui/plots/series.h"

namespace lockstep::ui {

// From what is drawn last to what is drawn first.
enum class SpreadPart { kMedian, kMiddle, kAll };
inline constexpr int kSpreadParts = 3;

class Spread {
 public:
  struct Stretch {
    std::int64_t index = 0;  // of width(): [index, index + 1) · width
    MinMax all;              // of every sample
    // From the lower quartile of the lines' lowest values to the upper quartile of their highest:
    // at least half of the lines stay within.
    MinMax middle;
    MinMax median;  // of the lines' lowest values, and of their highest
  };
  // How x is seen: so many units of x, or of its decimal logarithm, to a pixel.
  struct View {
    double lower = 0, upper = 1;  // x
    double pixel = 1;
    bool log = false;
  };

  // Stretches are one to two pixels wide.
  void update(const std::vector<std::shared_ptr<Series>>& lines, const View& view);
  void clear() { *this = {}; }

  const std::vector<Stretch>& stretches() const { return stretches_; }  // those with lines
  // nullptr: no line is there.
  const Stretch* at(double x) const;
  double begin(const Stretch& one) const { return xOf(one.index); }  // x
  double end(const Stretch& one) const { return xOf(one.index + 1); }
  std::size_t lines() const { return lines_.size(); }
  std::size_t made() const { return made_; }  // stretches, all updates together; for tests

 private:
  struct Line {
    const Pyramid* shown = nullptr;
    const Pyramid* raw = nullptr;  // of the same samples, if `shown` is smoothed
    std::uint64_t revision = 0;
    // As last seen: samples, those of them that stay, and how often others were replaced.
    std::size_t seen = 0, settled = 0;
    std::uint64_t replaced = 0;
    std::size_t at = 0;  // while stretches are made
  };
  double xOf(std::int64_t index) const;
  std::int64_t indexOf(double x) const;
  double widthFor(const View& view) const;
  // Whether the lines are the same and have only got more samples.
  bool takeLines(const std::vector<std::shared_ptr<Series>>& lines, const View& view);
  std::int64_t firstChanged(const std::vector<std::shared_ptr<Series>>& lines);
  void make(std::int64_t from, std::int64_t to);
  void append(std::int64_t from, std::int64_t to);
  void makeBatch(std::int64_t first, std::int64_t end);
  void addLine(Line& line, std::int64_t index);  // to the batch, which begins at `index`

  std::vector<Line> lines_;
  double width_ = 0;
  bool log_ = false;
  std::int64_t first_ = 0, last_ = -1;  // stretches made, with those that have no samples
  std::vector<Stretch> stretches_;
  struct Lines {
    MinMax all;
    std::vector<double> lows, highs;  // a value for each line that is there
  };
  std::vector<Lines> batch_;  // of the stretches under way
  std::size_t made_ = 0;
};

}  // namespace lockstep::ui
