// LivePreview: the live curves of a run while a recorder is still reading earlier records. It has
// its own streams and threads, so that neither waits for the other, and ends for each node when the
// recorder reaches the preview's first record.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "app/runs/node_records.h"
#include "app/runs/run_aggregator.h"

namespace lockstep::app {

class LivePreview {
 public:
  // `post` is called on the preview's threads, with updates that have `preview` set and only
  // series.
  LivePreview(const std::string& run, const std::vector<RunNode>& nodes, const RunRow& row,
              std::function<void(RunUpdate)> post);
  // Takes the recorder's progress on a node. Thread-safe.
  void reached(const std::string& node, std::uint64_t sequence);

 private:
  void read(const std::string& run, const RunNode& node, const std::stop_token& stop);

  std::function<void(RunUpdate)> post_;
  std::map<std::string, std::atomic<std::uint64_t>> reached_;
  std::mutex mutex_;
  RunAggregator book_;                         // mutex_
  std::chrono::steady_clock::time_point due_;  // mutex_; time of the next update
  std::vector<std::jthread> threads_;          // last member: joined first
};

}  // namespace lockstep::app
