#include "ui/plots/spread.h"

#include <algorithm>
#include <cmath>

namespace lockstep::ui {
namespace {

constexpr std::int64_t kGap = 4;  // stretches
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
  double least = view.pixel;
  if (!view.log && !lines_.empty()) {
    std::size_t samples = 0;
    for (const Line& line : lines_)
      samples += line.shown->upper(view.upper) - line.shown->lower(view.lower);
    const double each = static_cast<double>(samples) / static_cast<double>(lines_.size());
    least = std::max(least, 2 * (view.upper - view.lower) / std::max(each, 1.0));
  }
  if (view.log == log_ && width_ > 0.9 * least && width_ < 2.2 * least) return width_;
  return std::exp2(std::ceil(std::log2(least)));
}

bool Spread::takeLines(const std::vector<std::shared_ptr<Series>>& lines, const View& view) {
  bool same = lines.size() == lines_.size();
  lines_.resize(lines.size());
  for (std::size_t i = 0; i < lines.size(); ++i) {
    Line& line = lines_[i];
    const Pyramid* shown = &lines[i]->shown(view.lower, view.upper);
    if (line.series == lines[i].get() && line.shown == shown &&
        line.revision == lines[i]->revision())
      continue;
    same = false;
    line = {lines[i].get(), shown, lines[i]->revision(), 0, 0};
  }
  return same;
}

// Of the stretches made.
std::int64_t Spread::firstChanged() {
  std::int64_t first = last_ + 1;
  for (Line& line : lines_) {
    const std::size_t size = line.shown->size();
    if (size > line.seen) first = std::min(first, indexOf(line.shown->x(line.seen)));
    line.seen = size;
  }
  return std::max(first, first_);
}

void Spread::update(const std::vector<std::shared_ptr<Series>>& lines, const View& view) {
  const bool same = takeLines(lines, view);
  const double width = widthFor(view);
  const bool begins = !same || width != width_ || view.log != log_ ||
                      indexOf(view.lower) < first_ || indexOf(view.lower) > last_;
  width_ = width;
  log_ = view.log;
  if (begins) {
    first_ = indexOf(view.lower);
    last_ = first_ - 1;
  }
  const std::int64_t from = firstChanged();
  make(from, std::max(last_, indexOf(view.upper)));
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
  for (const Line& line : lines_) {
    if (!line.series->smoothed()) continue;
    const Pyramid& raw = line.series->raw();
    std::size_t at = raw.lower(xOf(from));
    for (Stretch& one : stretches_) {
      if (one.index < from) continue;
      const std::size_t end = raw.lower(xOf(one.index + 1), at);
      one.all.add(raw.range(at, end));
      at = end;
    }
  }
}

void Spread::makeOne(std::int64_t index) {
  ++made_;
  lows_.clear();
  highs_.clear();
  Stretch one;
  one.index = index;
  const double end = xOf(index + 1);
  for (Line& line : lines_) {
    const std::size_t next = line.shown->lower(end, line.at);
    const MinMax values = line.shown->range(line.at, next);
    line.at = next;
    if (values.empty() || !std::isfinite(values.min) || !std::isfinite(values.max)) continue;
    one.all.add(values);
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
  const auto after =
      std::upper_bound(stretches_.begin(), stretches_.end(), indexOf(x),
                       [](std::int64_t index, const Stretch& one) { return index < one.index; });
  return after == stretches_.begin() ? nullptr : &*(after - 1);
}

bool Spread::isGap(const Stretch& one, const Stretch& next) const {
  return !log_ && next.index - one.index > kGap;
}

}  // namespace lockstep::ui
