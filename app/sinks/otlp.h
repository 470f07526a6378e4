// A run's curves as metrics of OpenTelemetry: OTLP in its JSON encoding.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "app/history/history.h"
#include "app/sinks/step_times.h"
#include "engine/base/status.h"

namespace lockstep::app {

// Makes requests of OTLP/HTTP to /v1/metrics, of at most 2000 points each. Each series is a gauge:
// "node/n1/gpu/0/utilisation" is the metric "lockstep.gpu.utilisation" with the attributes node and
// gpu, "rank/2/forward" is "lockstep.rank.forward" with rank, "node/n1/to/n2/rate" is
// "lockstep.link.rate" with node and to, "loss" is "lockstep.run.loss"; a value of a program of the
// user's own is "lockstep.scalar" with its tag. The run's id, model and cluster are attributes of
// the resource. Points are at the times of StepTimes; those without a time are left out.
class OtlpRequests {
 public:
  struct Request {
    std::string json;  // a line without its end
    std::size_t points = 0;
  };
  explicit OtlpRequests(const RunRow& row);
  ~OtlpRequests();
  OtlpRequests(const OtlpRequests&) = delete;
  OtlpRequests& operator=(const OtlpRequests&) = delete;

  void add(const std::string& series, std::span<const Point> points, const StepTimes& times);
  std::vector<Request> take();  // all that was added since the last call

 private:
  void close();

  struct State;
  std::unique_ptr<State> state_;
};

// All curves of a run, a request a line, which collectors also read from files (otlpjsonfile).
// Errors: those of the history.
Result<std::string> otlpOfRun(const History& history, const std::string& run);

}  // namespace lockstep::app
