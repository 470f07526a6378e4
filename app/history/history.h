// History: every run with its spec, plan, figures and curves, in SQLite files that studio and
// command line use at once. history.db has a row a run; runs/<run>.db has a run's curves, logs and
// errors. One recorder writes a run (a file lock); anybody reads at the same time.
//
// Points are kept in chunks of at most 4096 with a pyramid of minima and maxima, so any stretch
// of a curve is read in time that depends on the picture's width, not on the run's length.
//
// Threads: a History and a RunStore are used by one thread at a time; open several.
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

namespace lockstep::app {

enum class RunPhase : std::uint8_t {  // lockstep.run.v1.RunState, same numbers
  kUnknown,
  kLaunching,
  kPrepared,
  kRunning,
  kStopping,
  kSucceeded,
  kFailed,
  kStopped,
  kExpired,
};
std::string_view runPhaseName(RunPhase phase);  // "succeeded"
bool isFinal(RunPhase phase);

// What says how good a model is; of perplexity less is better.
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
  RunPhase phase = RunPhase::kLaunching;
  std::int64_t createdNs = 0, startedNs = 0, finishedNs = 0;  // wall clock; 0: not yet
  // Of a run under way: since when the node that coordinates it could not be reached; 0: it can.
  std::int64_t unreachableNs = 0;
  int generation = 1;
  int world = 0;
  std::string strategy, comm, planHash, version;
  double predictedStepSeconds = 0;
  double measuredStepSeconds = 0;
  RunFigures figures;
  std::string clusterName;
  std::string error;        // of a failed run, in one line
  std::string modelFile;    // safetensors in the home's models folder; "" while there is none
  std::string resumedFrom;  // run
};

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
// Of one pixel's worth of points; for single points low = high = last.
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

// What one transaction writes: data together with the cursor.
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

  // Recorder: one process at a time holds it, until the store is destroyed or the process ends.
  // kAlreadyExists where another records.
  Status lockForRecording();
  // All of it or nothing. Needs the lock.
  Status append(const RunBatch& batch);
  std::uint64_t cursor(const std::string& node) const;  // 0: nothing yet

  std::vector<SeriesInfo> series() const;
  // At most about maxPoints spans of [from, to], in order, with the span before and after it, so
  // that lines reach the edges. Exact points where few enough.
  Result<std::vector<Span>> read(const std::string& series, double from, double to,
                                 int maxPoints) const;
  Result<std::vector<Point>> readAll(const std::string& series) const;
  // Newest `limit` lines whose id is above `after` and below `before` (0: no bound), or the oldest;
  // in order. `rank` < -1: all.
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

// A run that was given up or deleted here, and of which nodes may still have their parts.
struct LeftRun {
  std::string run;
  std::string nodes;     // JSON, as RunDocuments::nodes: those that may
  bool deleted = false;  // its parts are to be removed, not only ended
};

class History {
 public:
  // Where history.db is missing, a new one lists again the runs whose files are there.
  static Result<std::unique_ptr<History>> open(const std::string& folder);
  ~History();
  History(const History&) = delete;
  History& operator=(const History&) = delete;

  Status add(const RunRow& row, const RunDocuments& documents);
  // As add, and the run's store, which was locked before anyone could see the row: whoever launches
  // keeps it until it has said in the documents where the run is.
  Result<std::unique_ptr<RunStore>> begin(const RunRow& row, const RunDocuments& documents);
  // Launches whose process ended before it could say where the run is: they are EXPIRED from now
  // on. Runs of a lost history that were being recorded, and are no longer: FAILED.
  Status expireAbandoned();
  Status update(const RunRow& row);  // the whole row, by its id
  Status setDocuments(const std::string& run, const RunDocuments& documents);
  Status setNotes(const std::string& run, const std::string& notes);
  Result<RunRow> row(const std::string& run) const;
  // A whole id, or a beginning that fits one run only, or "last".
  Result<RunRow> find(const std::string& text) const;
  Result<RunDocuments> documents(const std::string& run) const;
  // Newest first; `contains` in id, name, notes, strategy or cluster.
  Result<std::vector<RunRow>> list(const std::string& contains = {}, int limit = 10000) const;
  std::int64_t changes() const;  // grows when another process or this one changed a row
  // Ends a run that cannot be reached in the history: FAILED from now on. A recorder of it ends
  // too. That nodes may go on with it is noted in leftOnNodes(). kFailedPrecondition where it can
  // be reached or has ended.
  Status giveUp(const std::string& run);
  // The run's row and its file; that nodes may keep parts of it is noted in leftOnNodes().
  // kFailedPrecondition while it is being recorded, and, unless evenUnderWay, while it runs where
  // it can be reached.
  Status remove(const std::string& run, bool evenUnderWay = false);
  std::vector<LeftRun> leftOnNodes() const;  // newest first; the newest thousand are noted
  Status forgetPart(const std::string& run,
                    const std::string& node);  // nothing is left to do there
  // kDataLoss where the run's file was removed.
  Result<std::unique_ptr<RunStore>> openRun(const std::string& run) const;
  // Steps as rows, series as columns ("step", then those with a value a step); series over time
  // follow in a second table below an empty line.
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
