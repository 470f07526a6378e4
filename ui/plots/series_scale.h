// SeriesScale: what a step is in another unit, by a series that grows with the steps: samples or
// tokens seen. Linear between its samples, and from zero to the first.
#pragma once

#include <memory>

#include "ui/plots/series.h"

namespace lockstep::ui {

class SeriesScale {
 public:
  explicit SeriesScale(std::shared_ptr<const Series> series) : series_(std::move(series)) {}
  double at(double step) const;  // beyond the last sample as on the mean until there
  double back(double value) const;
  bool empty() const { return series_->raw().size() == 0; }
  const Series& series() const { return *series_; }

 private:
  std::shared_ptr<const Series> series_;
};

}  // namespace lockstep::ui
