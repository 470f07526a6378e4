// The current values of runs in Prometheus' text format
// (https://prometheus.io/docs/instrumenting/exposition_formats, version 0.0.4).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "app/history/history.h"
#include "engine/base/status.h"

namespace lockstep::app {

// Reads the history as other programs record it; takes no lock and writes nothing. Each value is
// the last one recorded. Values by the clock (of nodes, GPUs, links, processes) are left out once
// they are a minute old, and those of a rank that the run no longer has. Names of metrics are in
// prometheus.cc, with what they mean.
class PrometheusText {
 public:
  explicit PrometheusText(const History& history) : history_(history) {}

  // Returns the values of the run with this id, or, of "", of all that have not ended. `wallNs` is
  // the time now. A run whose curves cannot be read has lockstep_run_readable 0. Errors: those of
  // the history's list of runs.
  Result<std::string> read(const std::string& run, std::int64_t wallNs);

 private:
  struct Curves {  // of a run, kept open from read to read
    std::unique_ptr<RunStore> store;
    std::map<std::string, Point> last;  // by series
  };
  Status readCurves(const std::string& run, Curves& curves) const;

  const History& history_;
  std::map<std::string, Curves> curves_;  // by run
};

}  // namespace lockstep::app
