// StoredRun: a run that another program records, read from the history as it appears there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <stop_token>
#include <string>

#include "app/history/history.h"
#include "app/history/run_store.h"
#include "app/runs/run_update.h"

namespace lockstep::app {

class StoredRun {
 public:
  // All are borrowed. `post` receives updates without the run's id.
  StoredRun(std::string run, History& history, RunStore& store, std::function<void(RunUpdate)> post)
      : run_(std::move(run)), history_(history), store_(store), post_(std::move(post)) {}

  // Posts what was added since the last call. Returns whether the run has ended.
  bool tell(const std::stop_token& stop);

 private:
  std::vector<LogRow> newLogs(const std::stop_token& stop);

  const std::string run_;
  History& history_;
  RunStore& store_;
  const std::function<void(RunUpdate)> post_;
  std::map<std::string, double> seen_;  // by series: the last point's x
  std::int64_t lastLog_ = 0;
  std::map<std::int64_t, bool> evaluated_;  // of each epoch that was told, whether it was
  std::size_t errors_ = 0;
};

}  // namespace lockstep::app
