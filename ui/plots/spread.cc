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
  const std::int64_t most = 4 * (upper - lower + 1);  // that are kept to each side of the view
  if (isOther || upper < first_ || lower > last_ || lower - first_ > most || last_ - upper > most) {
    first_ = lower;
    last_ = first_ - 1;
  }
  make(firstChanged(lines), std::max(last_, upper));
  if (lower >= first_) return;
  const std::vector<Stretch> after = std::exchange(stretches_, {});
  append(lower, first_ - 1);
  stretches_.insert(stretches_.end(), after.begin(), after.end());
  first_ = lower;
}

void Spread::make(std::int64_t from, std::int64_t to) {
  const auto kept =
      std::lower_bound(stretches_.begin(), stretches_.end(), from,
                       [](const Stretch& one, std::int64_t index) { return one.index < index; });
  stretches_.erase(from == first_ ? stretches_.begin() : kept, stretches_.end());
  last_ = to;
  append(from, to);
}

void Spread::append(std::int64_t from, std::int64_t to) {
  if (from > to) return;
  for (Line& line : lines_) line.at = line.shown->lower(xOf(from));
  for (std::int64_t first = from; first <= to; first += kBatch)
    makeBatch(first, std::min(first + kBatch, to + 1));
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

void Spread::makeBatch(std::int64_t first, std::int64_t end) {
  batch_.resize(static_cast<std::size_t>(end - first));
  for (std::int64_t index = first; index < end; ++index) {
    Lines& values = batch_[static_cast<std::size_t>(index - first)];
    values.all = {};
    values.lows.clear();
    values.highs.clear();
  }
  for (Line& line : lines_) addLine(line, first);
  for (std::int64_t index = first; index < end; ++index) {
    Lines& values = batch_[static_cast<std::size_t>(index - first)];
    if (values.lows.empty()) continue;
    const auto [quarter, lowMedian] = parts(values.lows, 0.25, 0.5);
    const auto [highMedian, threeQuarters] = parts(values.highs, 0.5, 0.75);
    stretches_.push_back({index, values.all, {quarter, threeQuarters}, {lowMedian, highMedian}});
  }
  made_ += batch_.size();
}

void Spread::addLine(Line& line, std::int64_t index) {
  std::size_t samples = 0;  // of the stretch before
  for (Lines& values : batch_) {
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

const Spread::Stretch* Spread::at(double x) const {
  if (width_ <= 0 || (log_ && x <= 0)) return nullptr;
  const std::int64_t index = indexOf(x);
  const auto there =
      std::lower_bound(stretches_.begin(), stretches_.end(), index,
                       [](const Stretch& one, std::int64_t i) { return one.index < i; });
  return there != stretches_.end() && there->index == index ? &*there : nullptr;
}

}  // namespace lockstep::ui
