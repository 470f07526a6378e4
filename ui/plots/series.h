// Series: one line of a plot: its samples, and the same smoothed.
#pragma once

#include <QColor>
#include <QString>
#include <atomic>
#include <cstdint>
#include <limits>
#include <optional>

#include "ui/plots/pyramid.h"

namespace lockstep::ui {

// A number that no other revision has, not even of a copy: what is cached by it is never taken for
// something else. Threads: any.
class Revision {
 public:
  Revision() = default;
  Revision(const Revision&) : Revision() {}
  Revision& operator=(const Revision&) {
    change();
    return *this;
  }
  void change() { value_ = ++last_; }
  std::uint64_t value() const { return value_; }

 private:
  inline static std::atomic<std::uint64_t> last_ = 0;
  std::uint64_t value_ = ++last_;
};

class Series {
 public:
  // `smoothable` series are drawn as an exponential moving average, with the samples as a shadow.
  Series(QString name, int colorIndex, bool smoothable = false)
      : name(std::move(name)), colorIndex(colorIndex), smoothable_(smoothable) {}

  void append(double x, double y);
  // Appends a sample while earlier ones are still missing. It is drawn after a gap until append()
  // replaces all such samples.
  void appendAhead(double x, double y);
  void clear();
  void setSmoothing(double weight);  // 0…<1, of the past; smoothed anew
  bool smoothed() const { return smoothable_ && weight_ > 0; }
  // Changes when samples that stay are changed, not when some are appended, replaced() or thinned.
  // Unique among all series.
  std::uint64_t revision() const { return revision_.value(); }
  // Samples that stay: all but those of appendAhead().
  std::size_t settled() const { return ahead_ ? ahead_->size : raw_.size(); }
  // How often samples of appendAhead() were replaced.
  std::uint64_t replaced() const { return replaced_; }
  // How often they were thinned (setLimit()).
  std::uint64_t thinnings() const { return thinnings_; }
  const Pyramid& raw() const { return raw_; }
  const Pyramid& shown() const { return smoothed() ? smooth_ : raw_; }

  // Keeps at most about as many samples as that, evenly over x: the least and the greatest of each
  // stretch, so that no peak is lost.
  void setLimit(std::size_t samples);
  void setThinned() { thinned_ = true; }  // the samples given are not all
  // More samples of [from, to], drawn where no more than that is in sight; exact: all of them.
  void setDetail(double from, double to, Pyramid samples, bool exact);
  // Returns whether [from, to], so many pixels wide, has fewer samples here than could be shown.
  bool wantsDetail(double from, double to, int pixels) const;
  bool hasDetail(double from, double to) const { return detail_ && detail_->covers(from, to); }
  const Pyramid& raw(double from, double to) const {
    return hasDetail(from, to) ? detail_->samples : raw_;
  }
  const Pyramid& shown(double from, double to) const {
    return smoothed() ? smooth_ : raw(from, to);
  }

  int shownColor() const { return markColor.value_or(colorIndex); }

  QString name;
  QString quantity;  // "sent", where a plot has several: many lines of each are a spread of its own
  QString owner;     // "n1": the node that was measured
  int colorIndex = 0;
  std::optional<int> markColor;  // while it is drawn by itself on a spread
  bool visible = true;
  bool dashed = false;  // a prediction beside its measurement
  bool dots = false;    // few samples: marks too

 private:
  void appendSmooth(double x, double y);
  void dropAhead();
  void thin();

  struct Average {
    double value = 0, debias = 0;
  };
  bool smoothable_ = false;
  double weight_ = 0;
  Average average_;
  Pyramid raw_, smooth_;
  struct Ahead {
    std::size_t size = 0;  // of samples before
    Average average;
  };
  std::optional<Ahead> ahead_;
  Revision revision_;
  std::uint64_t replaced_ = 0;
  std::size_t limit_ = std::numeric_limits<std::size_t>::max();
  bool thinned_ = false;
  std::uint64_t thinnings_ = 0;
  struct Detail {
    double from = 0, to = 0;
    Pyramid samples;
    bool exact = false;
    bool covers(double begin, double end) const { return begin >= from && end <= to; }
  };
  std::optional<Detail> detail_;
};

}  // namespace lockstep::ui
