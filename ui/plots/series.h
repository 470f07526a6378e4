// Series: one line of a plot: its samples, and the same smoothed.
#pragma once

#include <QColor>
#include <QString>
#include <optional>

#include "ui/plots/pyramid.h"

namespace lockstep::ui {

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
  const Pyramid& raw() const { return raw_; }
  const Pyramid& shown() const { return smoothed() ? smooth_ : raw_; }
  // Returns the sample nearest to x; -1 if there is none.
  std::ptrdiff_t nearest(double x) const;

  QString name;
  int colorIndex = 0;
  bool visible = true;
  bool dashed = false;  // a prediction beside its measurement
  bool dots = false;    // few samples: marks too

 private:
  void appendSmooth(double x, double y);
  void dropAhead();

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
};

}  // namespace lockstep::ui
