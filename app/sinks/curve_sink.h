// CurveSink: a place that the curves of a run go to while it goes on.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>
#include <string>

#include "app/history/run_data.h"
#include "app/history/run_row.h"
#include "app/sinks/step_times.h"
#include "engine/base/status.h"

namespace lockstep::app {

struct SinkPoints {
  const std::string& series;
  std::int64_t first;  // the number of the first of the points in their series
  std::span<const Point> points;
  const StepTimes& times;
};

// Points that were not taken and would not be at another try.
struct RefusedPoints {
  std::int64_t count = 0;
  Message why;
};

// Threads: one at a time.
class CurveSink {
 public:
  virtual ~CurveSink() = default;
  virtual void add(const SinkPoints& points) = 0;
  virtual std::int64_t pending() const = 0;  // points that were not handed on yet
  // Hands on all that was added; what could not be is kept for the next call.
  virtual Status flush(const std::stop_token& stop) = 0;
  // The bytes of its file, for whoever goes on with it; 0: it needs none.
  virtual std::int64_t size() const = 0;
  virtual RefusedPoints refused() const = 0;  // so far
  virtual std::string name() const = 0;       // as messages have it: "/data/out/RUN.csv"
};

// `size`: of an earlier CurveSink; what the file has beyond it is replaced.
std::unique_ptr<CurveSink> csvSink(const std::string& path, std::int64_t size);
// An object a line: {"series":"loss","step":12,"value":0.5,"time":1764381234.25}. Of series over
// epochs it has "epoch" instead of "step", of those over time neither; times are in seconds since
// 1970. NaN and infinities are null.
std::unique_ptr<CurveSink> jsonSink(const std::string& path, std::int64_t size);
// Event files of TensorBoard, as writeTensorBoard() has them: new ones beside those of an earlier
// CurveSink.
std::unique_ptr<CurveSink> tensorBoardSink(const std::string& folder);
// Requests of OTLP in its JSON encoding, with the headers of OTEL_EXPORTER_OTLP_HEADERS. A URL
// without a path gets /v1/metrics.
std::unique_ptr<CurveSink> otlpSink(const std::string& url, const RunRow& row);

}  // namespace lockstep::app
