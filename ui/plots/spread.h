// Spread: what many lines do together, for plots with more lines than can be told apart. x is cut
// into stretches; for each it holds the range of all values and quartiles over the lines. A line
// without a sample in a stretch takes part with its value between the samples around it. When
// samples are appended or the last ones replaced, only the stretches from there on are made again,
// so that the cost of a live plot follows what is new. Those of samples that are thinned later stay
// as they are. What takes longer than a frame may is made in several. Threads: one.
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
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

  // Makes what the view needs; stretches are one to two pixels wide. Returns false if there is more
  // to make at `until`: the next call goes on. Meanwhile the stretches from before are shown, or
  // where the view has none of them, those made so far.
  using Clock = std::chrono::steady_clock;
  bool update(const std::vector<std::shared_ptr<Series>>& lines, const View& view,
              Clock::time_point until = Clock::time_point::max());
  void clear() { *this = {}; }

  const std::vector<Stretch>& stretches() const { return shown_.stretches(); }  // with lines
  // nullptr: no line is there.
  const Stretch* at(double x) const { return shown_.at(x); }
  double begin(const Stretch& one) const { return shown_.xOf(one.index); }  // x
  double end(const Stretch& one) const { return shown_.xOf(one.index + 1); }
  std::size_t lines() const { return shown_.lines(); }
  std::size_t made() const { return made_; }  // stretches, all updates together; for tests

 private:
  // Stretches of one width, made from these lines.
  class Grid {
   public:
    using Lines = std::vector<std::shared_ptr<Series>>;
    void begin(const Lines& lines, const View& view);
    // Whether it can be extended to the view: the lines are the same and have only got more
    // samples, the width is right, and the view is not far away.
    bool suits(const Lines& lines, const View& view) const;
    bool overlaps(const View& view) const;
    // Returns whether all of the view is made; adds the stretches made to `made`.
    bool extend(const Lines& lines, const View& view, Clock::time_point until, std::size_t& made);

    const std::vector<Stretch>& stretches() const { return stretches_; }
    const Stretch* at(double x) const;
    double xOf(std::int64_t index) const;
    std::size_t lines() const { return lines_.size(); }

   private:
    static constexpr double kNone = -std::numeric_limits<double>::infinity();
    struct Line {
      const Pyramid* shown = nullptr;
      const Pyramid* raw = nullptr;  // of the same samples, if `shown` is smoothed
      std::uint64_t revision = 0;
      // As last seen: samples, those of them that stay, the last x of both, and how often samples
      // were replaced and thinned.
      std::size_t seen = 0, settled = 0;
      double seenX = kNone, settledX = kNone;
      std::uint64_t replaced = 0, thinnings = 0;
      std::size_t at = 0;  // while stretches are made
    };
    std::int64_t indexOf(double x) const;
    double widthFor(const View& view) const;
    std::int64_t firstChanged(const Lines& lines);
    void makeBatch(std::int64_t first, std::int64_t end);  // in the place of those from before
    void addLine(Line& line, std::int64_t index);          // to the batch, which begins at `index`

    std::vector<Line> lines_;
    double width_ = 0;
    bool log_ = false;
    std::int64_t first_ = 0, last_ = -1;  // stretches made, with those that have no samples
    std::vector<Stretch> stretches_;
    struct Values {
      MinMax all;
      std::vector<double> lows, highs;  // a value for each line that is there
    };
    std::vector<Values> batch_;  // of the stretches under way
  };
  Grid shown_, next_;  // the next one is under way
  std::size_t made_ = 0;
};

}  // namespace lockstep::ui
