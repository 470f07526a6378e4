#include "ui/plots/series.h"

#include <cmath>

namespace lockstep::ui {

void Series::append(double x, double y) {
  raw_.append(x, y);
  if (smoothed()) appendSmooth(x, y);
}

void Series::clear() {
  raw_.clear();
  smooth_.clear();
  average_ = debias_ = 0;
}

// Exponential average with the start-up bias divided out (Kingma and Ba, 2015, section 3).
void Series::appendSmooth(double x, double y) {
  if (!std::isfinite(y)) {
    smooth_.append(x, std::nan(""));
    return;
  }
  average_ = weight_ * average_ + (1 - weight_) * y;
  debias_ = weight_ * debias_ + (1 - weight_);
  smooth_.append(x, average_ / debias_);
}

void Series::setSmoothing(double weight) {
  weight_ = weight;
  smooth_.clear();
  average_ = debias_ = 0;
  if (!smoothed()) return;
  for (std::size_t i = 0; i < raw_.size(); ++i) appendSmooth(raw_.x(i), raw_.y(i));
}

std::ptrdiff_t Series::nearest(double x) const {
  if (raw_.size() == 0) return -1;
  const std::size_t at = raw_.lower(x);
  if (at == raw_.size()) return static_cast<std::ptrdiff_t>(at) - 1;
  if (at > 0 && x - raw_.x(at - 1) < raw_.x(at) - x) return static_cast<std::ptrdiff_t>(at) - 1;
  return static_cast<std::ptrdiff_t>(at);
}

}  // namespace lockstep::ui
