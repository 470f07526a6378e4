#include "ui/plots/series.h"

#include <cmath>

namespace lockstep::ui {

void Series::append(double x, double y) {
  dropAhead();
  raw_.append(x, y);
  if (smoothed()) appendSmooth(x, y);
}

void Series::appendAhead(double x, double y) {
  if (!ahead_) {
    ahead_ = Ahead{raw_.size(), average_};
    raw_.append(x, std::nan(""));
    if (smoothed()) appendSmooth(x, std::nan(""));
  }
  raw_.append(x, y);
  if (smoothed()) appendSmooth(x, y);
}

void Series::dropAhead() {
  if (!ahead_) return;
  raw_.truncate(ahead_->size);
  smooth_.truncate(ahead_->size);
  average_ = ahead_->average;
  ahead_.reset();
}

void Series::clear() {
  ahead_.reset();
  raw_.clear();
  smooth_.clear();
  average_ = {};
}

// Exponential average with the start-up bias divided out (Kingma and Ba, 2015, section 3).
void Series::appendSmooth(double x, double y) {
  if (!std::isfinite(y)) {
    smooth_.append(x, std::nan(""));
    return;
  }
  average_.value = weight_ * average_.value + (1 - weight_) * y;
  average_.debias = weight_ * average_.debias + (1 - weight_);
  smooth_.append(x, average_.value / average_.debias);
}

void Series::setSmoothing(double weight) {
  weight_ = weight;
  smooth_.clear();
  average_ = {};
  if (!smoothed()) return;
  for (std::size_t i = 0; i < raw_.size(); ++i) {
    if (ahead_ && i == ahead_->size) ahead_->average = average_;
    appendSmooth(raw_.x(i), raw_.y(i));
  }
}

std::ptrdiff_t Series::nearest(double x) const {
  if (raw_.size() == 0) return -1;
  const std::size_t at = raw_.lower(x);
  if (at == raw_.size()) return static_cast<std::ptrdiff_t>(at) - 1;
  if (at > 0 && x - raw_.x(at - 1) < raw_.x(at) - x) return static_cast<std::ptrdiff_t>(at) - 1;
  return static_cast<std::ptrdiff_t>(at);
}

}  // namespace lockstep::ui
