#include "app/runs/step_matrix.h"

#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

#include "engine/specs/specs.h"

namespace lockstep::app {
namespace {

constexpr std::array<std::string_view, 10> kNames{"step",      "data",     "forward",   "backward",
                                                  "waiting",   "transfer", "optimizer", "began",
                                                  "gpu_clock", "stalled"};
constexpr std::size_t kBegan = 7, kClockColumn = 8, kStalledColumn = 9;
constexpr std::int64_t kMostSteps = 1'000'000'000;
constexpr float kUnknown = std::numeric_limits<float>::quiet_NaN();

// The stored columns that a measure is the sum of.
struct Parts {
  std::array<int, 3> at{};
  int count = 1;
};
Parts partsOf(StepMeasure measure) {
  if (measure == StepMeasure::kCompute) return {{2, 3, 6}, 3};
  if (measure == StepMeasure::kCommunication) return {{4, 5, 0}, 2};
  if (measure == StepMeasure::kGpuClock) return {{kClockColumn, 0, 0}, 1};
  if (measure == StepMeasure::kStalled) return {{kStalledColumn, 0, 0}, 1};
  return {{static_cast<int>(measure), 0, 0}, 1};
}

struct Column {
  int rank = 0;
  std::size_t at = 0;  // in kNames
};
std::optional<Column> columnOf(std::string_view name) {
  if (!name.starts_with("rank/")) return std::nullopt;
  name.remove_prefix(5);
  int rank = -1;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), rank);
  if (error != std::errc() || rank < 0 || rank >= specs::kMaxRanks) return std::nullopt;
  name.remove_prefix(static_cast<std::size_t>(end - name.data()));
  if (name.empty() || name[0] != '/') return std::nullopt;
  const auto found = std::find(kNames.begin(), kNames.end(), name.substr(1));
  if (found == kNames.end()) return std::nullopt;
  return Column{rank, static_cast<std::size_t>(found - kNames.begin())};
}

bool isStep(double x) { return x >= 1 && x <= static_cast<double>(kMostSteps); }

// Merges the values of two steps that share a cell: the greater one; of begins, the earlier one; of
// clocks, the lower one.
float together(std::size_t column, float a, float b) {
  return column == kBegan || column == kClockColumn ? std::fmin(a, b) : std::fmax(a, b);
}

}  // namespace

bool StepMatrix::takes(std::string_view series) { return columnOf(series).has_value(); }

bool StepMatrix::add(const RunBatch::Series& series, bool preview) {
  const auto found = columnOf(series.name);
  if (!found) return false;
  const auto [rank, column] = *found;
  if (rank >= ranks()) rows_.resize(static_cast<std::size_t>(rank) + 1);
  for (const Point& point : series.points)
    if (isStep(point.x)) steps_ = std::max(steps_, static_cast<std::int64_t>(point.x));
  makeRoom();
  Row& row = rows_[static_cast<std::size_t>(rank)];
  std::vector<float>& values = row.values[column];
  for (const Point& point : series.points) {
    if (!isStep(point.x)) continue;
    const auto step = static_cast<std::int64_t>(point.x);
    if (step <= before_) continue;
    const auto at = static_cast<std::size_t>(cellOf(step));
    if (column == kBegan && origin_ == 0) origin_ = point.y;
    if (step <= row.last[column]) continue;  // trained again after a restart, or read twice
    if (at >= values.capacity())
      values.reserve(std::max(at + 1, std::min(2 * values.capacity(), cellsOfARank())));
    if (at >= values.size()) values.resize(at + 1, kUnknown);
    const auto value = static_cast<float>(column == kBegan ? point.y - origin_ : point.y);
    values[at] = together(column, values[at], value);
    changed_ = std::min(changed_, step);
    if (preview) continue;
    row.last[column] = step;
    row.sum[column] += point.y;
    ++row.count[column];
  }
  return true;
}

void StepMatrix::makeRoom() {
  while (cells() > 1 && static_cast<std::size_t>(cells()) > cellsOfARank()) {
    stride_ *= 2;
    changed_ = 1;
    for (Row& row : rows_)
      for (std::size_t column = 0; column < row.values.size(); ++column) {
        std::vector<float>& values = row.values[column];
        if (values.size() % 2 != 0) values.push_back(kUnknown);
        for (std::size_t i = 0; i < values.size() / 2; ++i)
          values[i] = together(column, values[2 * i], values[2 * i + 1]);
        values.resize(values.size() / 2);
      }
  }
}

bool StepMatrix::has(StepMeasure measure) const {
  const auto column = static_cast<std::size_t>(partsOf(measure).at[0]);
  return std::any_of(rows_.begin(), rows_.end(),
                     [&](const Row& row) { return !row.values[column].empty(); });
}

float StepMatrix::value(StepMeasure measure, int rank, std::int64_t step) const {
  float out = kUnknown;
  if (rank >= 0 && rank < ranks() && step > before_) read(measure, rank, cellOf(step), 1, &out);
  return out;
}

void StepMatrix::read(StepMeasure measure, int rank, std::int64_t from, std::size_t count,
                      float* out) const {
  const Row& row = rows_[static_cast<std::size_t>(rank)];
  const Parts parts = partsOf(measure);
  const auto first = static_cast<std::size_t>(from);
  for (int part = 0; part < parts.count; ++part) {
    const auto& values =
        row.values[static_cast<std::size_t>(parts.at[static_cast<std::size_t>(part)])];
    const std::size_t there =
        values.size() > first ? std::min(count, values.size() - first) : std::size_t{0};
    if (part == 0) {
      std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(there > 0 ? first : 0), there, out);
    } else {
      for (std::size_t i = 0; i < there; ++i) out[i] += values[first + i];
    }
    std::fill(out + there, out + count, kUnknown);
  }
}

double StepMatrix::mean(StepMeasure measure, int rank) const {
  if (rank < 0 || rank >= ranks()) return kUnknown;
  const Row& row = rows_[static_cast<std::size_t>(rank)];
  const Parts parts = partsOf(measure);
  double out = 0;
  for (int part = 0; part < parts.count; ++part) {
    const auto column = static_cast<std::size_t>(parts.at[static_cast<std::size_t>(part)]);
    out += row.sum[column] / static_cast<double>(row.count[column]);  // 0/0: unknown
  }
  return out;
}

double StepMatrix::began(int rank, std::int64_t step) const {
  if (rank < 0 || rank >= ranks() || step <= before_) return kUnknown;
  const auto& values = rows_[static_cast<std::size_t>(rank)].values[kBegan];
  const auto at = static_cast<std::size_t>(cellOf(step));
  return at < values.size() ? origin_ + values[at] : kUnknown;
}

std::int64_t StepMatrix::takeChanged() {
  const std::int64_t out = std::min(changed_, steps_ + 1);
  changed_ = steps_ + 1;
  return out;
}

}  // namespace lockstep::app
