// What is recorded of a run while it trains: curves, log lines, epochs, errors and events.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/status.h"

namespace lockstep::app {

struct Point {
  double x = 0, y = 0;
};
// Points that fall on one pixel; for a single point low = high = last.
struct Span {
  double x = 0, low = 0, high = 0, last = 0;
};

struct SeriesInfo {
  std::string name;  // see app/runs/run_update.h
  std::int64_t points = 0;
  double firstX = 0, lastX = 0, low = 0, high = 0;
};
struct LogRow {
  std::int64_t id = 0;  // increasing
  std::int64_t wallNs = 0;
  std::string node;
  int rank = -1;  // -1: the supervisor
  std::string text;
};
struct EpochRow {
  std::int64_t epoch = 0, step = 0;
  double trainLoss = 0;
  double evalLoss = 0, evalMetric = 0;  // not numbers while it is not evaluated
  bool evaluated() const { return !std::isnan(evalLoss); }
};
// All events of one step of one rank: run.v1.EventChunk, on the coordinator's monotonic clock.
struct SpanEvents {
  int rank = 0;
  std::int64_t step = 0;
  std::string packed;
};

// The content of one transaction: data together with the cursors.
struct RunBatch {
  struct Series {
    std::string name;
    std::vector<Point> points;
  };
  std::vector<Series> series;  // x increasing within a series, and from batch to batch
  std::vector<LogRow> logs;    // ids are given by the store
  std::vector<EpochRow> epochs;
  std::vector<Error> errors;
  std::vector<SpanEvents> events;
  struct Cursor {
    std::string node;
    std::uint64_t sequence = 0;
  };
  std::vector<Cursor> cursors;
};

}  // namespace lockstep::app
