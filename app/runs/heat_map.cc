#include "app/runs/heat_map.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

namespace lockstep::app {
namespace {

constexpr float kUnknown = std::numeric_limits<float>::quiet_NaN();
constexpr float kNothing = -std::numeric_limits<float>::infinity();  // unknown, as a map keeps it
constexpr std::size_t kCellsAtOnce = 64;  // read row by row, which caches like
constexpr double kRounding = 1e-9;        // of steps and rows
constexpr std::size_t kSampled = 20'000;  // values that the scale is taken from
constexpr double kBelowScale = 0.995;     // share of them

// to[i] = max(to[i], from[i]). Eight at once are one instruction or two.
void takeGreater(float* __restrict to, const float* __restrict from, std::int64_t count) {
  constexpr int kAtOnce = 8;
  for (; count >= kAtOnce; count -= kAtOnce, to += kAtOnce, from += kAtOnce)
    for (int i = 0; i < kAtOnce; ++i) to[i] = to[i] < from[i] ? from[i] : to[i];
  for (; count > 0; --count, ++to, ++from) *to = std::max(*to, *from);
}

// Returns the median of the values that are not NaN; NaN if there are none. Reorders the values.
float medianOf(std::vector<float>& values) {
  const auto end =
      std::remove_if(values.begin(), values.end(), [](float value) { return std::isnan(value); });
  if (end == values.begin()) return kUnknown;
  const auto middle = values.begin() + (end - values.begin() - 1) / 2;
  std::nth_element(values.begin(), middle, end);
  return *middle;
}

}  // namespace

void HeatMap::setMeasure(StepMeasure measure, bool relative) {
  measure_ = measure;
  relative_ = relative;
  clear();
}

void HeatMap::clear() {
  steps_ = done_ = 0;
  rows_.clear();
}

bool HeatMap::update(StepMatrix& matrix, std::size_t cells) {
  if (std::exchange(stride_, matrix.stride()) != matrix.stride()) clear();
  done_ = std::min(done_, matrix.cellOf(matrix.takeChanged()));
  if (static_cast<int>(rows_.size()) != matrix.ranks()) {
    rows_.resize(static_cast<std::size_t>(matrix.ranks()));
    done_ = 0;  // medians change
  }
  steps_ = matrix.steps();
  if (rows_.empty()) return true;
  const std::int64_t cellCount = matrix.cells();
  for (auto& levels : rows_) {
    if (levels.empty()) levels.resize(1);
    levels[0].resize(static_cast<std::size_t>(cellCount), kNothing);
  }
  const std::int64_t first = done_;
  std::vector<float> lengths(rows_.size() * kCellsAtOnce), column(rows_.size());
  for (std::size_t read = 0; done_ < cellCount && read < cells;
       read += rows_.size() * kCellsAtOnce) {
    const std::size_t count = std::min(kCellsAtOnce, static_cast<std::size_t>(cellCount - done_));
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      float* const values = rows_[r][0].data() + done_;
      matrix.read(measure_, static_cast<int>(r), done_, count, values);
      for (std::size_t i = 0; isLowBad(measure_) && i < count; ++i) values[i] = -values[i];
      if (relative_ && !isLowBad(measure_))
        matrix.read(StepMeasure::kStep, static_cast<int>(r), done_, count,
                    lengths.data() + r * kCellsAtOnce);
    }
    for (std::size_t i = 0; relative_ && i < count; ++i) {
      const std::size_t at = static_cast<std::size_t>(done_) + i;
      for (std::size_t r = 0; r < rows_.size(); ++r) column[r] = rows_[r][0][at];
      const float middle = medianOf(column);
      float unit = -middle;  // the median clock, which is negated
      if (!isLowBad(measure_)) {
        for (std::size_t r = 0; r < rows_.size(); ++r) column[r] = lengths[r * kCellsAtOnce + i];
        unit = medianOf(column);
      }
      for (auto& levels : rows_) levels[0][at] = (levels[0][at] - middle) / unit;
    }
    for (auto& levels : rows_)
      for (std::size_t i = 0; i < count; ++i)
        if (float& value = levels[0][static_cast<std::size_t>(done_) + i]; !std::isfinite(value))
          value = kNothing;
    done_ += static_cast<std::int64_t>(count);
  }
  buildLevels(first, done_);
  return done_ == cellCount;
}

// Of the cells [from, to).
void HeatMap::buildLevels(std::int64_t from, std::int64_t to) {
  for (auto& levels : rows_) {
    auto begin = static_cast<std::size_t>(from), end = static_cast<std::size_t>(to);
    for (std::size_t level = 1; levels[level - 1].size() > kBlock; ++level) {
      if (level == levels.size()) levels.emplace_back();
      const std::vector<float>& below = levels[level - 1];
      levels[level].resize((below.size() + kBlock - 1) / kBlock, kNothing);
      begin /= kBlock;
      end = (end + kBlock - 1) / kBlock;
      for (std::size_t i = begin; i < end; ++i) {
        float most = kNothing;
        for (std::size_t k = i * kBlock; k < std::min(below.size(), (i + 1) * kBlock); ++k)
          most = std::max(most, below[k]);
        levels[level][i] = most;
      }
    }
  }
}

float HeatMap::value(int rank, std::int64_t step) const {
  const std::int64_t cell = (step - 1) / stride_;
  if (rank < 0 || rank >= ranks() || step < 1 || cell >= done_) return kUnknown;
  const float out = rows_[static_cast<std::size_t>(rank)][0][static_cast<std::size_t>(cell)];
  return out == kNothing ? kUnknown : out;
}

double HeatMap::scale() const {
  std::vector<double> values;
  const std::size_t total = rows_.size() * static_cast<std::size_t>(done_);
  const std::size_t stride = std::max<std::size_t>(1, total / kSampled);
  for (std::size_t i = 0; i < total; i += stride) {
    const auto rank = i / static_cast<std::size_t>(done_);
    const float value = rows_[rank][0][i % static_cast<std::size_t>(done_)];
    if (std::isfinite(value)) values.push_back(std::abs(value));
  }
  if (values.empty()) return 0;
  const auto at = values.begin() +
                  static_cast<std::ptrdiff_t>(kBelowScale * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), at, values.end());
  const double most = relative_ ? std::clamp(*at, 0.05, 5.0) : std::max(*at, 1e-6);
  const double power = std::pow(10.0, std::floor(std::log10(most)));
  for (const double round : {1.0, 2.0, 5.0})
    if (most <= round * power * (1 + 1e-9)) return round * power;
  return 10 * power;
}

void HeatMap::reduce(const Window& window, std::span<const int> order,
                     std::vector<float>& out) const {
  out.assign(static_cast<std::size_t>(window.width) * static_cast<std::size_t>(window.height),
             kUnknown);
  if (rows_.empty() || window.width <= 0) return;
  // The level whose blocks are no longer than a pixel: a pixel reads at most kBlock of them.
  const double perPixel = window.stepSpan / window.width;
  std::size_t level = 0;
  auto block = static_cast<double>(stride_);  // steps
  while (level + 1 < rows_[0].size() && block * kBlock <= perPixel) {
    ++level;
    block *= kBlock;
  }
  const auto size = static_cast<std::int64_t>(rows_[0][level].size());
  const auto within = [&](double at) {
    return std::clamp<std::int64_t>(static_cast<std::int64_t>(at), 0, size);
  };
  // Every block and every row belongs to one pixel, or several pixels show it; the last pixel has
  // the whole block in which the window ends.
  std::vector<std::int64_t> cuts;  // blocks, by pixel
  for (int x = 0; x <= window.width; ++x) {
    const double at = (window.firstStep - 1 + perPixel * x) / block;
    cuts.push_back(within(x < window.width ? at + kRounding : std::ceil(at - kRounding)));
  }
  const std::int64_t first = cuts.front(), last = std::min(size, cuts.back() + 1);
  const auto rows = static_cast<std::int64_t>(order.size());
  const auto rowAt = [&](int y) {
    return static_cast<std::int64_t>(
        std::floor(window.firstRow + window.rowSpan * y / window.height + kRounding));
  };
  std::vector<float> most(static_cast<std::size_t>(last - first));  // of a line's rows
  for (int y = 0; y < window.height; ++y) {
    const std::int64_t top = rowAt(y), bottom = std::min(rows, std::max(top + 1, rowAt(y + 1)));
    float* line = out.data() + static_cast<std::ptrdiff_t>(y) * window.width;
    if (y > 0 && top == rowAt(y - 1)) {
      std::copy_n(line - window.width, window.width, line);  // of the same row
      continue;
    }
    std::fill(most.begin(), most.end(), kNothing);
    for (std::int64_t row = std::max<std::int64_t>(0, top); row < bottom; ++row) {
      const int rank = order[static_cast<std::size_t>(row)];
      if (rank < ranks())
        takeGreater(most.data(), rows_[static_cast<std::size_t>(rank)][level].data() + first,
                    last - first);
    }
    for (std::size_t x = 0; x + 1 < cuts.size(); ++x) {
      float value = kNothing;
      const std::int64_t end = std::min(size, std::max(cuts[x] + 1, cuts[x + 1]));
      for (std::int64_t i = cuts[x]; i < end; ++i)
        value = std::max(value, most[static_cast<std::size_t>(i - first)]);
      *line++ = value == kNothing ? kUnknown : value;
    }
  }
}

std::vector<int> rowOrder(const StepMatrix& matrix, RowOrder by, StepMeasure measure,
                          std::span<const std::string> nodes) {
  std::vector<int> out(static_cast<std::size_t>(matrix.ranks()));
  std::iota(out.begin(), out.end(), 0);
  if (by == RowOrder::kNode) {
    std::map<std::string, std::size_t, std::less<>> seen;  // nodes, as they come first
    std::vector<std::size_t> nodeOf(out.size(), nodes.size());
    for (std::size_t rank = 0; rank < std::min(out.size(), nodes.size()); ++rank)
      nodeOf[rank] = seen.emplace(nodes[rank], seen.size()).first->second;
    std::stable_sort(out.begin(), out.end(), [&](int a, int b) {
      return nodeOf[static_cast<std::size_t>(a)] < nodeOf[static_cast<std::size_t>(b)];
    });
  } else if (by == RowOrder::kCost) {
    std::vector<double> costs;
    for (const int rank : out) {
      const double mean = matrix.mean(measure, rank);
      costs.push_back(std::isnan(mean)    ? -std::numeric_limits<double>::infinity()
                      : isLowBad(measure) ? -mean
                                          : mean);
    }
    std::stable_sort(out.begin(), out.end(), [&](int a, int b) {
      return costs[static_cast<std::size_t>(a)] > costs[static_cast<std::size_t>(b)];
    });
  }
  return out;
}

}  // namespace lockstep::app
