// What is recorded of a run while it trains: curves, log lines, epochs, errors, events, stragglers
// and restarts.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
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
  bool slow = false;  // told since it was slow, rather than sampled
};
// A step that has events.
struct EventStep {
  std::int64_t step = 0;
  bool slow = false;
  int ranks = 0;  // that have told them
};

// A rank or link that made the others wait.
struct StragglerRow {
  std::int64_t wallNs = 0, endNs = 0;  // noticed; over. 0: not yet
  int rank = -1;                       // -1: the link from `node` to `to`
  std::string node, to;
  std::int64_t sinceStep = 0, untilStep = 0;  // 0: not known; not over
  double factor = 0;                          // its time against the others'; 0: not known
  std::string phase;                          // "backward"
  std::string cause;                          // in English; "": not known
  bool halted = false;                        // stopped, rather than slow
  double lostSeconds = 0;                     // what it cost; known when it is over
  std::string text;                           // what the log says, in English
};
// A restart of a run after a failure.
struct RestartRow {
  int generation = 0;                  // of the workers that were started
  std::int64_t wallNs = 0, endNs = 0;  // of the failure; when it trained again. 0: not known
  std::optional<Error> cause;          // none: not known
  std::int64_t lostSteps = 0;          // trained again
  double seconds = 0;                  // from the failure until the first step
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
  // Completes the row of the same rank or link that is not over, if that is the last one; else it
  // is a new row.
  std::vector<StragglerRow> stragglers;
  std::vector<RestartRow> restarts;  // completes the row of the generation
  // What a recorder that takes over has to know of records before the cursors, see RunAggregator.
  struct Fact {
    std::string key, text;
  };
  std::vector<Fact> facts;  // replace those with the same key
  struct Cursor {
    std::string node;
    std::uint64_t sequence = 0;
  };
  std::vector<Cursor> cursors;
};

}  // namespace lockstep::app
