#include "app/report/step_times.h"

#include <algorithm>
#include <cmath>

#include "app/report/run_axis.h"

namespace lockstep::app {

Result<StepTimes> StepTimes::of(const RunRow& row, const RunStore& store, int rank) {
  StepTimes out;
  out.start_ = static_cast<double>(row.startedNs > 0 ? row.startedNs : row.createdNs) * 1e-9;
  LOCKSTEP_ASSIGN(out.began_, stepsBegan(store, rank, out.start_));
  if (out.began_.empty() && rank != 0) return of(row, store, 0);
  std::erase_if(out.began_, [](const Point& point) { return !std::isfinite(point.y); });
  for (const EpochRow& epoch : store.epochs())
    out.stepOf_[static_cast<double>(epoch.epoch)] = static_cast<double>(epoch.step);
  return out;
}

double StepTimes::ofStep(double step) const {
  if (began_.empty()) return start_;
  const auto after = std::lower_bound(began_.begin(), began_.end(), step,
                                      [](const Point& point, double x) { return point.x < x; });
  if (after == began_.end()) return began_.back().y;
  if (after->x == step || after == began_.begin()) return after->y;
  const Point &a = *(after - 1), &b = *after;
  return a.y + (b.y - a.y) * ((step - a.x) / (b.x - a.x));
}

double StepTimes::ofEpoch(double epoch) const {
  const auto step = stepOf_.find(epoch);
  return step == stepOf_.end() ? start_ : ofStep(step->second);
}

double StepTimes::ofPoint(SeriesAxis axis, double x) const {
  if (axis == SeriesAxis::kTime) return x;
  return axis == SeriesAxis::kStep ? ofStep(x) : ofEpoch(x);
}

}  // namespace lockstep::app
