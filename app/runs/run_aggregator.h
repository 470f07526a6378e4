// RunAggregator: turns the records of a run's nodes into curves, breakdown, epochs and the run's
// row. No threads, no I/O.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "app/history/run_data.h"
#include "app/history/run_row.h"
#include "app/runs/gpu_clocks.h"
#include "app/runs/gpu_watch.h"
#include "app/runs/lost_time.h"
#include "app/runs/node_clock.h"
#include "app/runs/run_update.h"
#include "app/runs/straggler_watch.h"
#include "engine/analysis/analysis.h"
#include "engine/plan/batch_shares.h"
#include "lockstep/run/v1/telemetry.pb.h"

namespace lockstep::app {

class RunAggregator {
 public:
  // `nodes` are the run's, the coordinator first; `row` is the history's. Records up to a node's
  // cursor are in the history already and are skipped, except steps, so that a recorder that takes
  // over completes the breakdown of steps that not all ranks had reported, and the end, which is
  // written last.
  struct NodeCursor {
    std::string node;
    std::uint64_t sequence = 0;
  };
  // `shares`: how the run's plan divides the batch among its ranks. `facts`: what the skipped
  // records said of ranks, members and clocks.
  RunAggregator(RunRow row, const std::vector<NodeCursor>& nodes, plan::BatchShares shares = {},
                const std::vector<RunBatch::Fact>& facts = {});

  // Adds a record of one node, in the order of its sequence numbers.
  void add(const std::string& node, const run::v1::Record& record);

  // Returns the changes since the last take, for the history and for observers.
  struct Taken {
    RunBatch batch;
    RunUpdate update;
  };
  Taken take();
  bool empty() const { return fresh_ == 0; }

  bool hasEnded(const std::string& node) const;  // its last record is there
  bool finished(const std::string& node) const;  // likewise, or the run goes on without it
  // The node that coordinates the run; another one may take over from it.
  const std::string& coordinator() const { return coordinator_; }
  // Returns whether the coordinator has reported the end. Earlier records of other nodes may still
  // come, so rows of take() keep the earlier phase until then; row() has the final one.
  bool ended() const { return isFinal(row_.phase); }
  const RunRow& row() const { return row_; }
  // Sets when the coordinator became unreachable, by the wall clock; 0: it answers.
  void setUnreachable(std::int64_t sinceNs);
  // The run cannot be followed to its end: marks it as failed with this error, unless another node
  // has told how it ended.
  void fail(const Error& error);
  // Adds a warning of this program, rather than of a node.
  void warn(Error warning);

 private:
  struct Node {
    NodeClock clock;
    LostTime lostTime;
    bool finished = false;
    std::uint64_t sequence = 0, cursor = 0;
    double lastSample = 0;
    int cores = 0;                       // as the last sample had them
    std::map<int, GpuClocks> gpuClocks;  // by rank
  };

  void addTrained(const run::v1::EpochInfo& epoch);
  void addEpoch(const run::v1::EpochInfo& epoch);
  void addLog(const std::string& node, const run::v1::Record& record);
  void addRank(const std::string& node, const run::v1::Record& record);
  void addClock(const std::string& name, const run::v1::Record& record);
  void addRestart(const std::string& node, const run::v1::Record& record);
  void beginRestart(const std::string& node, const run::v1::Record& record, RunRestart& restart);
  void setMembers(const std::string& node, const run::v1::Record& record, RunRestart& restart);
  bool noteMembers(const run::v1::Recovering& recovering);
  void noteFact(std::string key, const std::string& node, const run::v1::Record& record);
  void know(const std::string& node, const run::v1::Record& record);
  bool isLeftOut(const std::string& node) const;  // the run continues without it
  void noteRank(int rank, const std::string& node);
  void addEvents(const Node& node, run::v1::EventChunk events);
  void addSteps(const std::string& name, Node& node, const run::v1::Record& record);
  std::int64_t stepsBefore(const std::string& node, const run::v1::StepChunk& chunk);
  void noteStep(std::int64_t step, double seconds);
  void addWatched(const run::v1::StepChunk& chunk, int index, std::int64_t step);
  void addSeen(const run::v1::StepChunk& chunk);
  void addScalars(const std::string& node, const run::v1::Record& record);
  void noteReported(const std::string& tag, const std::string& node,
                    const run::v1::Scalars& scalars);
  void addSource(const std::string& node, const run::v1::ProgramSource& source);
  void addOutlined(const analysis::StepSample& sample);
  void addSample(const std::string& name, Node& node, const run::v1::Record& record);
  void end(RunState phase, std::int64_t wallNs);
  void addFinished(const std::string& name, const run::v1::Record& record);
  void endAsAgreed();
  void addLostOthers(std::int64_t wallNs);
  void addError(const Error& error);
  void addLine(const LogRow& line);
  void addStarted(const std::string& name, const run::v1::Started& started, std::int64_t wallNs);
  void addWarning(const std::string& node, Error warning, std::int64_t wallNs);
  void noteHeard(std::int64_t wallNs);  // of the coordinator
  std::int64_t lastStep() const;
  void addParts(analysis::StepAnalyzer& steps);
  void analyse();
  std::vector<Point>& points(const std::string& series) { return series_[series]; }

  RunRow row_;
  bool readsAgain_ = true;  // no step of rank 0 was added that the history lacks
  RunState phaseBefore_;    // the last one that was not final
  bool rowChanged_ = false;
  std::int64_t recoveringNs_ = 0;  // when the last recovery began, by the coordinator's clock
  std::string coordinator_;
  // As which the coordinator has ended without the others, which may continue.
  std::optional<RunState> alone_;
  std::optional<run::v1::Record> agreed_;  // a node's last one, which tells how the run has ended
  std::map<std::string, Node> nodes_;
  std::map<int, std::string> nodeOfRank_;
  std::string errorNode_;            // node of the row's error
  std::set<std::string> members_;    // nodes with ranks after some were lost; empty: all
  std::set<std::string> wasMember_;  // nodes that have had ranks
  std::set<std::string> leftOut_;    // as told
  std::int64_t lastEpochStep_ = -1;
  std::map<int, std::int64_t> lastStep_;  // of each rank; after a restart, steps come again
  // Steps that a program's ranks have taken before each of its starts, by generation.
  std::map<int, std::int64_t> stepsBefore_;
  std::map<std::string, std::int64_t, std::less<>> lastWatched_;  // last step, by series
  bool countsSteps_ = false;   // figures.steps is of rank 0's steps
  struct Reported {            // a program's value
    int rank = 0, source = 0;  // as sourceOrder()
    std::int64_t step = -1;
  };
  std::map<std::string, Reported> reported_;  // the last that counted, by series
  std::set<std::string> sources_;             // of a program, that are known
  GpuWatch gpus_;
  StragglerWatch stragglers_;
  std::int64_t lastWallNs_ = 0;  // of a step or sample
  plan::BatchShares shares_;
  // The steps of a generation with other ranks, or with another division of the batch, to the last
  // one that is known of it: some nodes may be read later than others.
  struct Earlier {
    analysis::StepAnalyzer steps;
    std::int64_t last = 0;
  };
  std::optional<Earlier> earlier_;
  analysis::StepAnalyzer analyzer_;
  std::vector<double> durations_;  // of rank 0's steps, thinned when many
  std::size_t durationStride_ = 1, durationSkip_ = 0;

  std::map<std::string, std::vector<Point>> series_;
  RunUpdate update_;
  RunBatch batch_;
  std::size_t fresh_ = 0;
};

}  // namespace lockstep::app
