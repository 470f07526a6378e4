#include "ui/plots/spread.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

namespace lockstep::ui {
namespace {

constexpr double kLeastOfLog = 1e-300, kMostIndex = 1e15;

// Stretches that are made together: a line's samples of them are read in one go.
constexpr std::int64_t kBatch = 64;

// The values below which these parts of them lie, lower <= upper; they are put into another order.
std::pair<double, double> parts(std::span<double> values, double lower, double upper) {
  const auto place = [&](double fraction) {
    return values.begin() + std::lround(fraction * static_cast<double>(values.size() - 1));
  };
  const auto low = place(lower), high = place(upper);
  std::nth_element(values.begin(), low, values.end());
  if (high != low) std::nth_element(low + 1, high, values.end());
  return {*low, *high};
}

}  // namespace

double Spread::Grid::xOf(std::int64_t index) const {
  const double at = static_cast<double>(index) * width_;
  return log_ ? std::pow(10, at) : at;
}

std::int64_t Spread::Grid::indexOf(double x) const {
  const double at = (log_ ? std::log10(std::max(x, kLeastOfLog)) : x) / width_;
  return static_cast<std::int64_t>(std::clamp(std::floor(at), -kMostIndex, kMostIndex));
}

// A power of two, and kept where it is nearly right: stretches stay the same while the view grows.
double Spread::Grid::widthFor(const View& view) const {
  if (view.log == log_ && width_ > 0.9 * view.pixel && width_ < 2.2 * view.pixel) return width_;
  return std::exp2(std::ceil(std::log2(view.pixel)));
}

void Spread::Grid::begin(const Lines& lines, const View& view) {
  *this = {};
  width_ = widthFor(view);
  log_ = view.log;
  first_ = indexOf(view.lower);
  last_ = first_ - 1;
  for (const auto& line : lines) {
    Line& one = lines_.emplace_back();
    one.shown = &line->shown(view.lower, view.upper);
    one.raw = line->smoothed() ? &line->raw() : nullptr;
    one.revision = line->revision();
    one.thinnings = line->thinnings();
  }
}

bool Spread::Grid::suits(const Lines& lines, const View& view) const {
  if (lines.size() != lines_.size() || view.log != log_ || widthFor(view) != width_) return false;
  for (std::size_t i = 0; i < lines.size(); ++i)
    if (lines_[i].shown != &lines[i]->shown(view.lower, view.upper) ||
        lines_[i].revision != lines[i]->revision())
      return false;
  const std::int64_t lower = indexOf(view.lower), upper = indexOf(view.upper);
  const std::int64_t most = 4 * (upper - lower + 1);  // that are kept to each side of the view
  return upper >= first_ && lower <= last_ && lower - first_ <= most && last_ - upper <= most;
}

bool Spread::Grid::overlaps(const View& view) const {
  return !stretches_.empty() && xOf(stretches_.front().index) < view.upper &&
         xOf(stretches_.back().index + 1) > view.lower;
}

// Of the stretches made: the one with a line's last sample before the new ones, from which it goes
// on to them.
std::int64_t Spread::Grid::firstChanged(const Lines& lines) {
  std::int64_t first = last_ + 1;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    Line& line = lines_[i];
    const Pyramid& shown = *line.shown;
    if (line.thinnings != lines[i]->thinnings()) {  // indices have moved
      line.seen = shown.lower(line.seenX);
      line.settled = shown.lower(line.settledX);
    }
    const std::size_t size = shown.size();
    const bool replaced = line.replaced != lines[i]->replaced();
    const std::size_t same = std::min(replaced ? line.settled : line.seen, size);
    if (size > 0 && (replaced || size > same))
      first = std::min(first, indexOf(shown.x(same > 0 ? same - 1 : 0)));
    line.seen = size;
    line.settled = std::min(lines[i]->settled(), size);
    line.seenX = size > 0 ? shown.x(size - 1) : kNone;
    line.settledX = line.settled > 0 ? shown.x(line.settled - 1) : kNone;
    line.replaced = lines[i]->replaced();
    line.thinnings = lines[i]->thinnings();
  }
  return std::max(first, first_);
}

bool Spread::Grid::extend(const Lines& lines, const View& view, Clock::time_point until,
                          std::size_t& made) {
  const std::int64_t lower = indexOf(view.lower), to = std::max(last_, indexOf(view.upper));
  const std::int64_t from = firstChanged(lines);
  last_ = from - 1;
  for (Line& line : lines_) line.at = line.shown->lower(xOf(from));
  while (last_ < to) {
    const std::int64_t end = std::min(last_ + 1 + kBatch, to + 1);
    makeBatch(last_ + 1, end);
    made += batch_.size();
    last_ = end - 1;
    if (Clock::now() >= until) break;
  }
  if (last_ < to) return false;
  while (lower < first_) {
    const std::int64_t begin = std::max(lower, first_ - kBatch);
    for (Line& line : lines_) line.at = line.shown->lower(xOf(begin));
    makeBatch(begin, first_);
    made += batch_.size();
    first_ = begin;
    if (Clock::now() >= until) break;
  }
  return lower >= first_;
}

bool Spread::update(const Grid::Lines& lines, const View& view, Clock::time_point until) {
  if (!(view.pixel > 0) || !std::isfinite(view.pixel) || (view.log && view.lower <= 0)) {
    clear();
    return true;
  }
  if (shown_.suits(lines, view)) {
    next_ = {};
    return shown_.extend(lines, view, until, made_);
  }
  if (!next_.suits(lines, view)) next_.begin(lines, view);
  const bool isWhole = next_.extend(lines, view, until, made_);
  if (isWhole || !shown_.overlaps(view)) shown_ = std::exchange(next_, {});
  return isWhole;
}

namespace {
// Between the sample and the one before it; empty where there is none, or a gap.
MinMax between(const Pyramid& samples, std::size_t after, double x) {
  if (after == 0 || after >= samples.size()) return {};
  const double left = samples.x(after - 1), right = samples.x(after);
  const double part = right > left ? std::clamp((x - left) / (right - left), 0.0, 1.0) : 1;
  const double y = samples.y(after - 1) + part * (samples.y(after) - samples.y(after - 1));
  MinMax out;
  out.add(y);
  return out;
}
}  // namespace

void Spread::Grid::makeBatch(std::int64_t first, std::int64_t end) {
  batch_.resize(static_cast<std::size_t>(end - first));
  for (std::int64_t index = first; index < end; ++index) {
    Values& values = batch_[static_cast<std::size_t>(index - first)];
    values.all = {};
    values.lows.clear();
    values.highs.clear();
  }
  for (Line& line : lines_) addLine(line, first);
  std::vector<Stretch> now;
  for (std::int64_t index = first; index < end; ++index) {
    Values& values = batch_[static_cast<std::size_t>(index - first)];
    if (values.lows.empty()) continue;
    const auto [quarter, lowMedian] = parts(values.lows, 0.25, 0.5);
    const auto [highMedian, threeQuarters] = parts(values.highs, 0.5, 0.75);
    now.push_back({index, values.all, {quarter, threeQuarters}, {lowMedian, highMedian}});
  }
  const auto place = [this](std::int64_t index) {
    return std::lower_bound(
        stretches_.begin(), stretches_.end(), index,
        [](const Stretch& one, std::int64_t before) { return one.index < before; });
  };
  const auto rest = stretches_.erase(place(first), place(end));
  stretches_.insert(rest, now.begin(), now.end());
}

void Spread::Grid::addLine(Line& line, std::int64_t index) {
  std::size_t samples = 0;  // of the stretch before
  for (Values& values : batch_) {
    const double begin = xOf(index), end = xOf(++index);
    const std::size_t at = line.at, next = line.shown->lower(end, at + samples);
    line.at = next;
    samples = next - at;
    const MinMax lowHigh =
        next > at ? line.shown->range(at, next) : between(*line.shown, at, (begin + end) / 2);
    if (lowHigh.empty()) continue;
    values.all.add(lowHigh);
    if (line.raw != nullptr && next > at && next <= line.raw->size())
      values.all.add(line.raw->range(at, next));
    values.lows.push_back(lowHigh.min);
    values.highs.push_back(lowHigh.max);
  }
}

const Spread::Stretch* Spread::Grid::at(double x) const {
  if (width_ <= 0 || (log_ && x <= 0)) return nullptr;
  const std::int64_t index = indexOf(x);
  const auto there =
      std::lower_bound(stretches_.begin(), stretches_.end(), index,
                       [](const Stretch& one, std::int64_t i) { return one.index < i; });
  return there != stretches_.end() && there->index == index ? &*there : nullptr;
}

}  // namespace lockstep::ui
