#include "app/runs/stored_run.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace lockstep::app {
namespace {

constexpr int kPage = 10000;  // log lines told at once

// Returns what comes after the first `count`, which becomes the number of all.
template <typename T>
std::vector<T> newOnes(const std::vector<T>& all, std::size_t& count) {
  const std::size_t known = std::min(count, all.size());
  count = all.size();
  return {all.begin() + static_cast<std::ptrdiff_t>(known), all.end()};
}

}  // namespace

bool StoredRun::tell(const std::stop_token& stop) {
  RunUpdate update;
  const auto row = history_.row(run_);
  if (row.ok()) update.row = *row;
  for (const SeriesInfo& info : store_.series()) {
    double& from =
        seen_.try_emplace(info.name, -std::numeric_limits<double>::infinity()).first->second;
    if (!(info.lastX > from)) continue;
    auto points = store_.readAfter(info.name, from);
    if (!points.ok() || points->empty()) continue;
    from = points->back().x;
    update.series.push_back({info.name, std::move(*points)});
  }
  update.logs = newLogs(stop);
  for (const EpochRow& epoch : store_.epochs()) {
    const auto [known, isNew] = evaluated_.try_emplace(epoch.epoch, epoch.evaluated());
    if (isNew || std::exchange(known->second, epoch.evaluated()) != epoch.evaluated())
      update.epochs.push_back(epoch);
  }
  update.errors = newOnes(store_.errors(), errors_);
  const bool ended = update.finished = row.ok() && isFinal(row->phase);
  post_(std::move(update));
  return ended;
}

// Posts all but the last page, however far behind.
std::vector<LogRow> StoredRun::newLogs(const std::stop_token& stop) {
  RunStore::LogFilter filter;
  filter.oldestFirst = true;
  for (;;) {
    filter.after = lastLog_;
    auto logs = store_.logs(filter, 0, kPage);
    if (!logs.ok() || logs->empty()) return {};
    lastLog_ = logs->back().id;
    if (logs->size() < static_cast<std::size_t>(kPage) || stop.stop_requested())
      return std::move(*logs);
    RunUpdate page;
    page.logs = std::move(*logs);
    post_(std::move(page));
  }
}

}  // namespace lockstep::app
