#include "app/sinks/step_times.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace lockstep::app {
namespace {

// Series over epochs, and what comes late from a node, are of steps before the newest.
constexpr std::size_t kKept = 4096;

void eraseUnknown(std::vector<Point>& began) {
  std::erase_if(began, [](const Point& point) { return !std::isfinite(point.y); });
}

}  // namespace

Result<std::vector<Point>> stepsBegan(const RunStore& store, int rank, double start) {
  LOCKSTEP_ASSIGN(std::vector<Point> began, store.readAll(fmt::format("rank/{}/began", rank)));
  if (!began.empty()) return began;
  LOCKSTEP_ASSIGN(const std::vector<Point> steps, store.readAll(fmt::format("rank/{}/step", rank)));
  for (const Point& step : steps) {
    began.push_back({step.x, start});
    if (std::isfinite(step.y)) start += step.y;
  }
  return began;
}

Result<StepTimes> StepTimes::of(const RunRow& row, const RunStore& store, int rank) {
  StepTimes out;
  out.start_ = static_cast<double>(row.startedNs > 0 ? row.startedNs : row.createdNs) * 1e-9;
  LOCKSTEP_ASSIGN(out.began_, stepsBegan(store, rank, out.start_));
  if (out.began_.empty() && rank != 0) return of(row, store, 0);
  eraseUnknown(out.began_);
  out.readEpochs(store);
  return out;
}

Status StepTimes::advance(const RunStore& store, int rank, double now) {
  const double last = began_.empty() ? -std::numeric_limits<double>::infinity() : began_.back().x;
  LOCKSTEP_ASSIGN(std::vector<Point> fresh,
                  store.readAfter(fmt::format("rank/{}/began", rank), last));
  eraseUnknown(fresh);
  began_.insert(began_.end(), fresh.begin(), fresh.end());
  start_ = now_ = now;
  readEpochs(store);
  return {};
}

void StepTimes::forgetOld() {
  if (began_.size() > kKept) began_.erase(began_.begin(), began_.end() - kKept);
}

void StepTimes::readEpochs(const RunStore& store) {
  for (const EpochRow& epoch : store.epochs())
    stepOf_[static_cast<double>(epoch.epoch)] = static_cast<double>(epoch.step);
}

double StepTimes::ofStep(double step) const {
  if (began_.empty()) return start_;
  const auto after = std::lower_bound(began_.begin(), began_.end(), step,
                                      [](const Point& point, double x) { return point.x < x; });
  if (after == began_.end()) return afterLast(step);
  if (after->x == step || after == began_.begin()) return after->y;
  const Point &a = *(after - 1), &b = *after;
  return a.y + (b.y - a.y) * ((step - a.x) / (b.x - a.x));
}

double StepTimes::afterLast(double step) const {
  const Point last = began_.back();
  if (now_ <= last.y || began_.size() < 2) return last.y;
  const Point before = began_[began_.size() - 2];
  const double each = std::max(0.0, (last.y - before.y) / (last.x - before.x));
  return std::min(now_, last.y + each * (step - last.x));
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
