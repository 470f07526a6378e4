// Tells which nodes a stage of a launch still waits for.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "app/runs/launcher.h"

namespace lockstep::app {

using Stage = LaunchProgress::Stage;
using Tell = std::function<void(const LaunchProgress&)>;

// Tells at once, then every few seconds on a thread of its own, until it is destroyed.
class StageProgress {
 public:
  StageProgress(Stage stage, std::vector<std::string> nodes,
                const Tell& tell);  // tell lives longer
  // Threads: any.
  void came(const std::string& node);
  void moved(std::int64_t bytes, std::int64_t total);
  void reads(const DataActivity& activity);
  void runs(const std::string& node, const std::string& command);  // of workload.setup

 private:
  void run(const std::stop_token& stop);

  LaunchProgress progress_;  // mutex_
  const Tell& tell_;
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::jthread thread_;
};

}  // namespace lockstep::app
