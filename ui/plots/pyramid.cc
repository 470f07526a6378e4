#include "ui/plots/pyramid.h"

#include <algorithm>

namespace lockstep::ui {

void Pyramid::append(double x, double y) {
  if (!x_.empty() && x < x_.back()) x = x_.back();
  x_.push_back(x);
  y_.push_back(y);
  std::size_t span = kFanout;
  for (std::size_t level = 0; x_.size() % span == 0; ++level, span *= kFanout) {
    if (levels_.size() == level) levels_.emplace_back();
    MinMax pair;
    if (level == 0) {
      for (std::size_t i = y_.size() - kFanout; i < y_.size(); ++i) pair.add(y_[i]);
    } else {
      const auto& below = levels_[level - 1];
      for (std::size_t i = below.size() - kFanout; i < below.size(); ++i) pair.add(below[i]);
    }
    levels_[level].push_back(pair);
  }
}

void Pyramid::clear() {
  x_.clear();
  y_.clear();
  levels_.clear();
}

void Pyramid::truncate(std::size_t size) {
  if (size >= x_.size()) return;
  x_.resize(size);
  y_.resize(size);
  for (auto& level : levels_) {
    size /= kFanout;
    level.resize(size);
  }
}

void Pyramid::keep(const std::vector<std::size_t>& samples) {
  Pyramid kept;
  kept.x_.reserve(samples.size());
  kept.y_.reserve(samples.size());
  for (const std::size_t i : samples) kept.append(x_[i], y_[i]);
  *this = std::move(kept);
}

std::size_t Pyramid::lower(double at) const {
  return static_cast<std::size_t>(std::lower_bound(x_.begin(), x_.end(), at) - x_.begin());
}
std::size_t Pyramid::lower(double at, std::size_t near) const {
  std::size_t begin = std::min(near, x_.size()), end = begin;
  for (std::size_t step = 1; begin > 0 && x_[begin - 1] >= at; step *= 2) {
    end = begin - 1;
    begin -= std::min(step, begin);
  }
  for (std::size_t step = 1; end < x_.size() && x_[end] < at; step *= 2) {
    begin = end + 1;
    end = std::min(end + step, x_.size());
  }
  const auto first = x_.begin();
  return static_cast<std::size_t>(std::lower_bound(first + static_cast<std::ptrdiff_t>(begin),
                                                   first + static_cast<std::ptrdiff_t>(end), at) -
                                  first);
}
std::size_t Pyramid::upper(double at) const {
  return static_cast<std::size_t>(std::upper_bound(x_.begin(), x_.end(), at) - x_.begin());
}

std::ptrdiff_t Pyramid::nearest(double at) const {
  const std::size_t after = lower(at);
  const bool before = after > 0 && (after == size() || at - x_[after - 1] < x_[after] - at);
  return static_cast<std::ptrdiff_t>(after) - (before || after == size() ? 1 : 0);
}

MinMax Pyramid::range(std::size_t begin, std::size_t end) const {
  MinMax out;
  end = std::min(end, y_.size());
  while (begin < end) {
    // The widest complete block that starts here and stays inside.
    std::size_t span = 1, level = 0;
    while (level < levels_.size() && begin % (span * kFanout) == 0 &&
           begin + span * kFanout <= end) {
      span *= kFanout;
      ++level;
    }
    if (level == 0) {
      out.add(y_[begin]);
    } else {
      out.add(levels_[level - 1][begin / span]);
    }
    begin += span;
  }
  return out;
}

}  // namespace lockstep::ui
