#include "app/runs/live_preview.h"

#include <algorithm>

namespace lockstep::app {
namespace {

constexpr auto kTick = std::chrono::milliseconds(33);      // between two updates
constexpr auto kCatchUp = std::chrono::milliseconds(400);  // for a recorder that is not far behind

std::vector<RunAggregator::NodeCursor> cursorsOf(const std::vector<RunNode>& nodes) {
  std::vector<RunAggregator::NodeCursor> out;
  for (const RunNode& node : nodes) out.push_back({node.name, 0});
  return out;
}

}  // namespace

LivePreview::LivePreview(const std::string& run, const std::vector<RunNode>& nodes,
                         const RunRow& row, std::function<void(RunUpdate)> post)
    : post_(std::move(post)), book_(row, cursorsOf(nodes)) {
  for (const RunNode& node : nodes) reached_[node.name] = 0;
  for (const RunNode& node : nodes)
    threads_.emplace_back(
        [this, run, &node](const std::stop_token& stop) { read(run, node, stop); });
}

void LivePreview::reached(const std::string& node, std::uint64_t sequence) {
  if (const auto found = reached_.find(node); found != reached_.end()) found->second = sequence;
}

void LivePreview::read(const std::string& run, const RunNode& node, const std::stop_token& stop) {
  std::uint64_t first = 0;
  std::chrono::steady_clock::time_point begin;
  const std::atomic<std::uint64_t>& reached = reached_.at(node.name);
  RecordSink sink;
  sink.reach = [](bool, const Message&) {};
  sink.record = [&](run::v1::Record&& record) {
    const auto now = std::chrono::steady_clock::now();
    if (first == 0) {
      first = record.sequence();
      begin = now + kCatchUp;
    }
    if (reached >= first) return false;
    std::lock_guard lock(mutex_);
    book_.add(node.name, record);
    if (now < std::max(begin, due_)) return true;
    due_ = now + kTick;
    RunUpdate update;
    update.series = book_.take().update.series;
    update.preview = true;
    if (!update.series.empty()) post_(std::move(update));
    return true;
  };
  (void)readRecords(run, node, kOnlyNew, sink, stop);
}

}  // namespace lockstep::app
