// The file of a run: curves, log, epochs, errors, events.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "app/history/run_row.h"

namespace lockstep::app {

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

class RunStore {
 public:
  ~RunStore();
  RunStore(const RunStore&) = delete;
  RunStore& operator=(const RunStore&) = delete;

  // Takes the recorder lock, held until the store is destroyed or the process ends. kAlreadyExists
  // if another process holds it.
  Status lockForRecording();
  // Writes atomically. Requires the recorder lock.
  Status append(const RunBatch& batch);
  std::uint64_t cursor(const std::string& node) const;  // 0: nothing yet

  std::vector<SeriesInfo> series() const;
  // Returns about maxPoints spans of [from, to] in order, plus one before and one after, so that
  // lines reach the edges. Exact points if there are few enough.
  Result<std::vector<Span>> read(const std::string& series, double from, double to,
                                 int maxPoints) const;
  Result<std::vector<Point>> readAll(const std::string& series) const;
  // Returns the newest (or oldest) `limit` lines with after < id < before (0: no bound), in order.
  // `rank` < -1: all ranks.
  struct LogFilter {
    std::string node;
    int rank = -2;
    std::string contains;
    std::int64_t after = 0;
    bool oldestFirst = false;
  };
  Result<std::vector<LogRow>> logs(const LogFilter& filter, std::int64_t before, int limit) const;
  std::vector<EpochRow> epochs() const;
  std::vector<Error> errors() const;
  std::vector<SpanEvents> events(std::int64_t fromStep, std::int64_t toStep) const;

 private:
  friend Result<std::unique_ptr<RunStore>> openRunStore(const std::string& path);
  struct State;
  explicit RunStore(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// For History.
Result<std::unique_ptr<RunStore>> openRunStore(const std::string& path);
// Takes the recorder lock of a run's file. Returns an open descriptor, or kAlreadyExists.
Result<int> lockRunStore(const std::string& path);

}  // namespace lockstep::app
