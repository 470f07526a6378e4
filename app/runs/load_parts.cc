#include "app/runs/load_parts.h"

#include <algorithm>
#include <utility>

namespace lockstep::app {

void LoadParts::collect(std::vector<RunBatch::Series>& series) {
  const auto loads = std::ranges::stable_partition(
      series, [](const RunBatch::Series& one) { return !one.name.starts_with("node/"); });
  for (RunBatch::Series& one : loads) {
    std::vector<Point>& points = loads_[one.name];
    points.insert(points.end(), one.points.begin(), one.points.end());
    points_ += one.points.size();
  }
  series.erase(loads.begin(), loads.end());
}

std::vector<std::vector<RunBatch::Series>> LoadParts::take(Clock::time_point now, bool all) {
  std::vector<std::vector<RunBatch::Series>> parts;
  if (points_ == 0 || (now < due_ && points_ < kMostPoints && !all)) return parts;
  points_ = 0;
  due_ = now + kEvery;
  std::size_t room = 0;
  for (const auto& [name, points] : std::exchange(loads_, {})) {
    for (auto from = points.begin(); from != points.end();) {
      if (room == 0) {
        parts.emplace_back();
        room = kPartPoints;
      }
      const auto count = std::min<std::size_t>(room, static_cast<std::size_t>(points.end() - from));
      const auto end = from + static_cast<std::ptrdiff_t>(count);
      parts.back().push_back({name, {from, end}});
      room -= count;
      from = end;
    }
  }
  return parts;
}

}  // namespace lockstep::app
