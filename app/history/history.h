// History: all runs with spec, plan, metrics and curves, in SQLite files that studio and command
// line share. history.db has one row per run; runs/<run>.db has the curves, logs and errors of a
// run. One recorder writes a run, under a file lock; any number of readers read concurrently.
//
// Curves are stored in chunks of at most 4096 points with a min/max pyramid, so the time to read a
// range depends on the number of pixels, not on the length of the run.
//
// History and RunStore are not thread-safe; each thread opens its own.
// Errors: kUnavailable (locked too long), kResourceExhausted (disk full), kDataLoss (not a history,
// corrupt), kFailedPrecondition (written by a newer Lockstep), kNotFound.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/specs/states.h"

namespace lockstep::app {

using run::v1::RunState;
using specs::isFinal;
using specs::stateName;

// Quality metric of a model. Lower perplexity is better, otherwise higher.
inline constexpr std::array<std::string_view, 3> kMetrics{"accuracy", "auc", "perplexity"};
bool isMetric(std::string_view series);

struct RunFigures {  // 0 where not known
  std::int64_t steps = 0, epochs = 0;
  double trainLoss = std::numeric_limits<double>::quiet_NaN();  // NaN where not known
  double evalLoss = 0, evalMetric = 0;
  std::string metric;  // which, one of kMetrics; "": none
  double samplesPerSecond = 0;
  std::string weightsSha256;
};

struct RunRow {
  std::string run;   // id
  std::string name;  // of the model
  std::string notes;
  RunState phase = RunState::LAUNCHING;
  std::int64_t createdNs = 0, startedNs = 0, finishedNs = 0;  // wall clock; 0: not yet
  // Of a running run: when its coordinator became unreachable; 0: it is reachable.
  std::int64_t unreachableNs = 0;
  int generation = 1;
  int world = 0;
  std::string strategy, comm, planHash, version;
  double predictedStepSeconds = 0;
  double measuredStepSeconds = 0;
  RunFigures figures;
  std::string clusterName;
  Message error;            // of a failed run, in one line
  std::string modelFile;    // safetensors in the home's models folder; "" while there is none
  std::string resumedFrom;  // run
};
// Whether its nodes have workers: it has begun and has not ended.
inline bool isUnderWay(RunState state) {
  return state == RunState::RUNNING || state == RunState::RECOVERING || state == RunState::STOPPING;
}
// Changes the state of a run; refuses a transition that is not allowed (specs::checkTransition).
Status setState(RunRow& row, RunState state);

struct RunDocuments {
  std::string specYaml;      // as written
  std::string specResolved;  // as run: defaults filled in, --set applied
  std::string clusterYaml;
  std::string plan;        // its text
  std::string prediction;  // JSON: per rank breakdown and memory, see app/runs/preview.h
  std::string nodes;       // JSON: per node its host's name, the supervisor's socket, folder, ranks
};

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
struct SpanEvents {  // full events of one step of one rank: plan::Event, packed
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

// A run that was given up or deleted, of which nodes may still have files.
struct LeftRun {
  std::string run;
  std::string nodes;     // JSON, as RunDocuments::nodes: those that may
  bool deleted = false;  // its parts are to be removed, not only ended
};

class History {
 public:
  // If history.db is missing, rebuilds it from the files of the runs.
  static Result<std::unique_ptr<History>> open(const std::string& folder);
  ~History();
  History(const History&) = delete;
  History& operator=(const History&) = delete;

  Status add(const RunRow& row, const RunDocuments& documents);
  // Like add, but returns the run's store, locked before the row is visible. A launch holds it
  // until the documents say where the run is.
  Result<std::unique_ptr<RunStore>> begin(const RunRow& row, const RunDocuments& documents);
  // Marks launches as EXPIRED whose process ended before it recorded where the run is, and runs of
  // a lost history that are no longer recorded as FAILED.
  Status expireAbandoned();
  Status update(const RunRow& row);  // the whole row, by its id
  Status setDocuments(const std::string& run, const RunDocuments& documents);
  Status setNotes(const std::string& run, const std::string& notes);
  Result<RunRow> row(const std::string& run) const;
  // Finds a run by id, unique prefix of an id, or "last".
  Result<RunRow> find(const std::string& text) const;
  Result<RunDocuments> documents(const std::string& run) const;
  // Lists runs, newest first, with `contains` in id, name, notes, strategy or cluster.
  Result<std::vector<RunRow>> list(const std::string& contains = {}, int limit = 10000) const;
  std::int64_t changes() const;  // grows when another process or this one changed a row
  // Marks an unreachable run as FAILED and ends its recorder. Notes in leftOnNodes() that nodes may
  // still run it. kFailedPrecondition if it is reachable or has ended.
  Status giveUp(const std::string& run);
  // Deletes a run's row and file, and notes in leftOnNodes() that nodes may still have files of it.
  // kFailedPrecondition while it is being recorded and, unless evenUnderWay, while it is running
  // and reachable.
  Status remove(const std::string& run, bool evenUnderWay = false);
  std::vector<LeftRun> leftOnNodes() const;  // newest first; the newest thousand are noted
  Status forgetPart(const std::string& run,
                    const std::string& node);  // nothing is left to do there
  // kDataLoss if the run's file was removed.
  Result<std::unique_ptr<RunStore>> openRun(const std::string& run) const;
  // Exports steps as rows and series as columns ("step", then series over steps). Series over time
  // follow in a second table after an empty line.
  Status exportCsv(const std::string& run, const std::string& path) const;
  Result<std::string> csv(const std::string& run) const;
  const std::string& folder() const;

 private:
  void listAgain();
  struct State;
  explicit History(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::app
