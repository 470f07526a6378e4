#include "app/runs/stage_progress.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace lockstep::app {

StageProgress::StageProgress(Stage stage, std::vector<std::string> nodes, const Tell& tell)
    : progress_{.stage = stage, .awaited = std::move(nodes)}, tell_(tell) {
  tell_(progress_);
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

void StageProgress::came(const std::string& node) {
  const std::lock_guard lock(mutex_);
  std::erase(progress_.awaited, node);
  std::erase_if(progress_.data, [&](const DataActivity& one) { return one.node == node; });
  progress_.commands.erase(node);
}

void StageProgress::moved(std::int64_t bytes, std::int64_t total) {
  const std::lock_guard lock(mutex_);
  progress_.bytesDone = std::max(progress_.bytesDone, bytes);
  progress_.bytesTotal = total;
}

void StageProgress::reads(const DataActivity& activity) {
  const std::lock_guard lock(mutex_);
  std::erase_if(progress_.data, [&](const DataActivity& one) { return one.node == activity.node; });
  if (activity.kind != DataActivity::Kind::kNone) progress_.data.push_back(activity);
}

void StageProgress::runs(const std::string& node, const std::string& command) {
  const std::lock_guard lock(mutex_);
  if (!command.empty()) progress_.commands[node] = command;
}

void StageProgress::run(const std::stop_token& stop) {
  const auto begin = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  for (int seconds = 2;; seconds += seconds < 5 ? 3 : 5) {
    progress_.seconds = seconds;
    if (wake_.wait_until(lock, stop, begin + std::chrono::seconds(seconds),
                         [&] { return stop.stop_requested(); }))
      return;
    if (!progress_.awaited.empty()) tell_(progress_);
  }
}

}  // namespace lockstep::app
