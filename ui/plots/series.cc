#include "ui/plots/series.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace lockstep::ui {

void Series::append(double x, double y) {
  dropAhead();
  raw_.append(x, y);
  if (smoothed()) appendSmooth(x, y);
  if (raw_.size() > limit_) thin();
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
  ++replaced_;
  raw_.truncate(ahead_->size);
  smooth_.truncate(ahead_->size);
  average_ = ahead_->average;
  ahead_.reset();
}

void Series::clear() {
  revision_.change();
  ahead_.reset();
  detail_.reset();
  raw_.clear();
  smooth_.clear();
  average_ = {};
  thinned_ = false;
}

void Series::setLimit(std::size_t samples) {
  limit_ = samples;
  if (!ahead_ && raw_.size() > limit_) thin();
}

// Of every stretch of x the least and the greatest sample, in their order; of the first one the
// first sample too, and the last eighth whole. Stretches are a power of two wide, so that what was
// thinned before stays as it is until they grow: a long run is thinned evenly, not again and again
// where it began.
void Series::thin() {
  const std::size_t size = raw_.size();
  const double most = std::max(static_cast<double>(limit_) / 4, 1.0);  // stretches
  const double length = raw_.x(size - 1) - raw_.x(0);
  const double width = length > 0 ? std::exp2(std::ceil(std::log2(length / most))) : 1;
  const auto stretch = [&](std::size_t i) { return std::floor(raw_.x(i) / width); };
  std::vector<std::size_t> kept;
  kept.reserve(size);
  const std::size_t tail = size - std::min(size, std::max<std::size_t>(limit_ / 8, 1));
  if (tail > 0) kept.push_back(0);
  for (std::size_t begin = 1, end = 1; begin < tail; begin = end) {
    std::size_t least = begin, greatest = begin;
    for (end = begin + 1; end < tail && stretch(end) == stretch(begin); ++end) {
      const double y = raw_.y(end);
      if (!std::isfinite(y)) continue;  // a number replaces it
      if (y < raw_.y(least) || !std::isfinite(raw_.y(least))) least = end;
      if (y > raw_.y(greatest) || !std::isfinite(raw_.y(greatest))) greatest = end;
    }
    kept.push_back(std::min(least, greatest));
    if (least != greatest) kept.push_back(std::max(least, greatest));
  }
  for (std::size_t i = tail; i < size; ++i) kept.push_back(i);
  raw_.keep(kept);
  if (smoothed()) smooth_.keep(kept);
  thinned_ = true;
  ++thinnings_;
}

void Series::setDetail(double from, double to, Pyramid samples, bool exact) {
  detail_ = Detail{from, to, std::move(samples), exact};
  revision_.change();
}

bool Series::wantsDetail(double from, double to, int pixels) const {
  if (!thinned_ || raw_.size() == 0 || from >= raw_.x(raw_.size() - 1)) return false;
  if (raw_.upper(to) - raw_.lower(from) > 2 * static_cast<std::size_t>(pixels)) return false;
  // What comes after the detail was read is here in full.
  if (!detail_ || !detail_->covers(from, std::min(to, detail_->to))) return true;
  const bool ends = to > detail_->to && raw_.upper(to) > raw_.upper(detail_->to);
  return ends || (!detail_->exact && detail_->to - detail_->from > 4 * (to - from));
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
  revision_.change();
  smooth_.clear();
  average_ = {};
  if (!smoothed()) return;
  for (std::size_t i = 0; i < raw_.size(); ++i) {
    if (ahead_ && i == ahead_->size) ahead_->average = average_;
    appendSmooth(raw_.x(i), raw_.y(i));
  }
}

}  // namespace lockstep::ui
