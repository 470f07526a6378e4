#include "ui/plots/spread.h"

#include <algorithm>
#include <cmath>

namespace lockstep::ui {
namespace {

constexpr double kLeastOfLog = 1e-300, kMostIndex = 1e15;

double part(std::vector<double>& values, double fraction) {
  const auto at = values.begin() + std::lround(fraction * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

}  // namespace

double Spread::xOf(std::int64_t index) const {
  const double at = static_cast<double>(index) * width_;
  return log_ ? std::pow(10, at) : at;
}

std::int64_t Spread::indexOf(double x) const {
  const double at = (log_ ? std::log10(std::max(x, kLeastOfLog)) : x) / width_;
  return static_cast<std::int64_t>(std::clamp(std::floor(at), -kMostIndex, kMostIndex));
}

// A power of two, and kept where it is nearly right: stretches stay the same while the view grows.
double Spread::widthFor(const View& view) const {
  if (view.log == log_ && width_ > 0.9 * view.pixel && width_ < 2.2 * view.pixel) return width_;
  return std::exp2(std::ceil(std::log2(view.pixel)));
}

bool Spread::takeLines(const std::vector<std::shared_ptr<Series>>& lines, const View& view) {
  bool same = lines.size() == lines_.size();
  lines_.resize(lines.size());
  for (std::size_t i = 0; i < lines.size(); ++i) {
    Line& line = lines_[i];
    const Pyramid* shown = &lines[i]->shown(view.lower, view.upper);
    if (line.shown == shown && line.revision == lines[i]->revision()) continue;
    same = false;
    const Pyramid* raw = &lines[i]->raw(view.lower, view.upper);
    line = {shown, raw != shown ? raw : nullptr, lines[i]->revision()};
  }
  return same;
}

// Of the stretches made: the one with a line's last sample before the new ones, from which it goes
// on to them.
std::int64_t Spread::firstChanged(const std::vector<std::shared_ptr<Series>>& lines) {
  std::int64_t first = last_ + 1;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    Line& line = lines_[i];
    const std::size_t size = line.shown->size();
    const bool replaced = line.replaced != lines[i]->replaced();
    const std::size_t same = std::min(replaced ? line.settled : line.seen, size);
    if (size > 0 && (replaced || size > same))
      first = std::min(first, indexOf(line.shown->x(same > 0 ? same - 1 : 0)));
    line.seen = size;
    line.settled = lines[i]->settled();
    line.replaced = lines[i]->replaced();
  }
  return std::max(first, first_);
}

void Spread::update(const std::vector<std::shared_ptr<Series>>& lines, const View& view) {
  if (!(view.pixel > 0) || !std::isfinite(view.pixel) || (view.log && view.lower <= 0))
    return clear();
  const bool same = takeLines(lines, view);
  const double width = widthFor(view);
  const bool isOther = !same || width != width_ || view.log != log_;
  width_ = width;
  log_ = view.log;
  const std::int64_t lower = indexOf(view.lower), upper = indexOf(view.upper);
  constexpr std::int64_t kMostViews = 4;  // that are kept to the left of this one
  if (isOther || lower < first_ || lower > last_ ||
      lower - first_ > kMostViews * (upper - lower + 1)) {
    first_ = lower;
    last_ = first_ - 1;
  }
  make(firstChanged(lines), std::max(last_, upper));
}

void Spread::make(std::int64_t from, std::int64_t to) {
  const auto kept =
      std::lower_bound(stretches_.begin(), stretches_.end(), from,
                       [](const Stretch& one, std::int64_t index) { return one.index < index; });
  stretches_.erase(from == first_ ? stretches_.begin() : kept, stretches_.end());
  last_ = to;
  if (from > to) return;
  for (Line& line : lines_) line.at = line.shown->lower(xOf(from));
  for (std::int64_t index = from; index <= to; ++index) makeOne(index);
}

namespace {
// Between the sample and the one before it; empty where there is none, or a gap.
MinMax between(const Pyramid& samples, std::size_t after, double x) {
  if (after == 0 || after >= samples.size()) return {};
  const double left = samples.x(after - 1), right = samples.x(after);
  const double part = right > left ? std::clamp((x - left) / (right - left), 0.0, 1.0) : 1;
  const double y = samples.y(after - 1) + part * (samples.y(after) - samples.y(after - 1));
  MinMax out;
  if (std::isfinite(y)) out.add(y);
  return out;
}
bool isFinite(const MinMax& values) {
  return !values.empty() && std::isfinite(values.min) && std::isfinite(values.max);
}
}  // namespace

void Spread::makeOne(std::int64_t index) {
  ++made_;
  lows_.clear();
  highs_.clear();
  Stretch one;
  one.index = index;
  const double end = xOf(index + 1), middle = (xOf(index) + end) / 2;
  for (Line& line : lines_) {
    const std::size_t at = line.at, next = line.shown->lower(end, at);
    line.at = next;
    const MinMax values =
        next > at ? line.shown->range(at, next) : between(*line.shown, at, middle);
    if (!isFinite(values)) continue;
    one.all.add(values);
    if (line.raw != nullptr && next > at && next <= line.raw->size())
      if (const MinMax raw = line.raw->range(at, next); isFinite(raw)) one.all.add(raw);
    lows_.push_back(values.min);
    highs_.push_back(values.max);
  }
  if (lows_.empty()) return;
  one.middle = {part(lows_, 0.25), part(highs_, 0.75)};
  one.median = {part(lows_, 0.5), part(highs_, 0.5)};
  stretches_.push_back(one);
}

const Spread::Stretch* Spread::at(double x) const {
  if (width_ <= 0 || (log_ && x <= 0)) return nullptr;
  const std::int64_t index = indexOf(x);
  const auto there =
      std::lower_bound(stretches_.begin(), stretches_.end(), index,
                       [](const Stretch& one, std::int64_t i) { return one.index < i; });
  return there != stretches_.end() && there->index == index ? &*there : nullptr;
}

}  // namespace lockstep::ui
