// LivePreview: the curves of a run as they go on now, for a recorder that is still reading what
// came before. It has streams and threads of its own, so that neither waits for the other, and ends
// for each node when the recorder has come as far as the preview began.
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
  // `post` is called on the preview's threads with updates where `preview` is set, which have
  // series only.
  LivePreview(const std::string& run, const std::vector<RunNode>& nodes, const RunRow& row,
              std::function<void(RunUpdate)> post);
  // Notes what the recorder has told of a node. Thread-safe.
  void reached(const std::string& node, std::uint64_t sequence);

 private:
  void read(const std::string& run, const RunNode& node, const std::stop_token& stop);

  std::function<void(RunUpdate)> post_;
  std::map<std::string, std::atomic<std::uint64_t>> reached_;
  std::mutex mutex_;
  RunAggregator book_;                         // mutex_
  std::chrono::steady_clock::time_point due_;  // mutex_; of the next update
  std::vector<std::jthread> threads_;          // last: it is joined first
};

}  // namespace lockstep::app
