#include "ui/plots/series_scale.h"

#include <algorithm>

namespace lockstep::ui {
namespace {

double between(double at, double fromLow, double fromHigh, double toLow, double toHigh) {
  if (!(fromHigh > fromLow)) return toHigh;
  return toLow + (toHigh - toLow) * (at - fromLow) / (fromHigh - fromLow);
}

}  // namespace

double SeriesScale::at(double step) const {
  const Pyramid& raw = series_->raw();
  if (raw.size() == 0) return step;
  const std::size_t last = raw.size() - 1;
  const std::size_t next = raw.lower(step);
  if (next > last) return raw.x(last) > 0 ? raw.y(last) * step / raw.x(last) : raw.y(last);
  return next == 0 ? between(step, 0, raw.x(0), 0, raw.y(0))
                   : between(step, raw.x(next - 1), raw.x(next), raw.y(next - 1), raw.y(next));
}

double SeriesScale::back(double value) const {
  const Pyramid& raw = series_->raw();
  if (raw.size() == 0) return value;
  std::size_t low = 0, high = raw.size();
  while (low < high) {
    const std::size_t middle = (low + high) / 2;
    if (raw.y(middle) < value)
      low = middle + 1;
    else
      high = middle;
  }
  const std::size_t last = raw.size() - 1;
  if (low > last) return raw.y(last) > 0 ? raw.x(last) * value / raw.y(last) : raw.x(last);
  return low == 0 ? between(value, 0, raw.y(0), 0, raw.x(0))
                  : between(value, raw.y(low - 1), raw.y(low), raw.x(low - 1), raw.x(low));
}

}  // namespace lockstep::ui
