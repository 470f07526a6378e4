// RunStore: the file of one run, with its curves, logs, epochs, errors, events, stragglers and
// restarts.
//
// The time to read a range of a curve depends on the number of pixels, not on the length of the run
// (app/history/curve_store.h).
//
// Threads and errors: see app/history/history.h.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "app/history/run_data.h"
#include "engine/base/status.h"

namespace lockstep::app {

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
  // A copy of the run's rows in history.db, from which it can be rebuilt. "": none.
  Status setAbout(const std::map<std::string_view, std::string>& texts);
  std::string about(std::string_view key) const;
  bool recorded() const;                        // whether anything was ever appended
  std::vector<RunBatch::Fact> facts() const;    // sorted by key
  Status closeStragglers(std::int64_t wallNs);  // at the run's end: those that are not over
  Status checkCurves() const;                   // reads all points; kDataLoss

  std::vector<SeriesInfo> series() const;
  // Returns about maxPoints spans of [from, to] in order, plus one before and one after, so that
  // lines reach the edges. Exact points if there are few enough.
  Result<std::vector<Span>> read(const std::string& series, double from, double to,
                                 int maxPoints) const;
  Result<std::vector<Point>> readAll(const std::string& series) const;
  // The points with a greater x.
  Result<std::vector<Point>> readAfter(const std::string& series, double x) const;
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
  // In order. Files of earlier versions have only time, rank, node and text of stragglers, a row
  // for each line of the log, and no restarts.
  std::vector<StragglerRow> stragglers() const;
  std::vector<RestartRow> restarts() const;
  std::vector<SpanEvents> events(std::int64_t fromStep, std::int64_t toStep) const;
  std::vector<EventStep> eventSteps() const;  // in order

 private:
  friend Result<std::unique_ptr<RunStore>> openRunStore(const std::string& path);
  friend Result<std::unique_ptr<RunStore>> makeRunStore(const std::string& path);
  struct State;
  explicit RunStore(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// For History, which knows the paths. The first one is for a file that must be there: kNotFound if
// it is not, kDataLoss if it is empty. The second one makes it where it is not there yet.
Result<std::unique_ptr<RunStore>> openRunStore(const std::string& path);
Result<std::unique_ptr<RunStore>> makeRunStore(const std::string& path);
// Keys of RunStore::about().
// JSON of the run's row, documents and tags.
inline constexpr std::string_view kAboutRow = "row", kAboutDocuments = "documents",
                                  kAboutTags = "tags";
// Not empty: the file replaces a damaged one and must be filled from the nodes.
inline constexpr std::string_view kAboutRefill = "refill";
// Begins the keys of JSON with what a run's sinks have taken (app/sinks/run_sinks.h).
inline constexpr std::string_view kAboutSink = "sink/";
// JSON: the program's files that are to be fetched, or what was (app/runs/artifacts.h).
inline constexpr std::string_view kAboutArtifacts = "artifacts";
inline constexpr std::string_view kArtifactsWanted = "{}";  // nothing was fetched yet
// Whether the node may still have files of the run's program that are not here.
bool lacksFiles(const RunStore& store, const std::string& node);
// Takes the recorder lock of a run's file. Returns an open descriptor, or kAlreadyExists.
Result<int> lockRunStore(const std::string& path);

}  // namespace lockstep::app
