// RunUpdate: changes of a run since the previous update. Recorders publish about thirty times a
// second at most, before the history is written; loads of nodes come in updates of their own, twice
// a second (app/runs/load_parts.h). The final phase comes with the last update.
//
// Series over steps (x = step, from 1): "loss" (mean over the global batch), the run's metric in
// training (one of kMetrics),
// "samples_per_second", of text "tokens_per_second", "learning_rate" (as the update had it), where
// they were measured "gradient_norm" and "update_ratio" (engine/ir/watch.h), "samples" and, of
// text, "tokens" (trained on so far, all epochs), of fp16 "loss_scale" and, of each step that left
// out updates, "skipped" (how many), and per rank "rank/<r>/step" (seconds), "rank/<r>/data",
// "…/forward", "…/backward", "…/waiting", "…/transfer", "…/optimizer", where it is not 0
// "…/stalled" (the part of the transfer in which its process did not run), "…/began" (when the
// step began, by the wall clock of the rank's node), and, where the driver of its GPU tells it,
// "…/gpu_clock" (MHz, see GpuClocks; while the GPU works). Series over time (x = wall clock,
// seconds):
// "node/<n>/cpu" (0…1), "…/memory", "…/memory_total", "…/disk_free" (bytes), "…/net_in",
// "…/net_out", "…/loopback", "…/disk_read", "…/disk_write" (bytes/s), when it changes "…/cores",
// where it is measured "…/package_power" (W, of processors and memory) and "…/disk_busy" (0…1), of
// its links to other nodes "node/<n>/to/<m>/sent", "…/rate" (bytes/s), "…/sending" (0…1) and
// "…/round_trip" (seconds), "rank/<r>/cpu" (cores), "rank/<r>/memory", "node/<n>/clock_offset" and
// "…/clock_uncertainty" (seconds, to the coordinator's); of each GPU, if its driver reports them,
// "node/<n>/gpu/<i>/utilisation" and "…/memory_utilisation" (0…1), "…/memory" (bytes),
// "…/temperature" (°C), "…/power" (W), "…/sm_clock", "…/memory_clock" (MHz), "…/pcie_in",
// "…/pcie_out", "…/nvlink_in", "…/nvlink_out" (bytes/s), "…/throttled" (1: it was throttled or at
// its power limit), "…/slowed" (1: throttled other than by its power limit) and, when they change,
// "…/ecc_corrected", "…/ecc_uncorrected", "…/xids" (total errors). Series over epochs:
// "epoch/train_loss", "epoch/eval_loss", "epoch/eval_<metric>". Of a program of the user's own,
// each value that it reports: "loss" and others of the names above that are over steps under that
// name, all others as "scalar/<tag>"; x is the program's step. If several ranks report a value,
// those of the lowest rank that is known so far count. If that rank reports it in several ways, one
// counts: the first of "log", a library, "tensorboard" and "stdout". At most 2000 such series are
// kept.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "app/history/run_data.h"
#include "app/history/run_row.h"
#include "app/runs/artifact_files.h"
#include "app/runs/run_restart.h"
#include "app/runs/straggler_story.h"
#include "engine/base/status.h"
#include "lockstep/run/v1/telemetry.pb.h"

namespace lockstep::app {

struct StepBreakdown {  // mean over the last steps, seconds a step
  int rank = 0;
  double data = 0, forward = 0, backward = 0, waiting = 0, transfer = 0, optimizer = 0, step = 0;
};

// A value that a program of the user's own has reported.
struct ReportedScalar {
  std::string tag, source;  // as ProgramSource::name
  int rank = 0;
  std::int64_t step = 0;
  double value = 0;
};

struct RunUpdate {
  std::string run;
  // Only live series, sent while earlier points are still being read. All points are sent again in
  // order.
  bool preview = false;
  bool more = false;  // a later update has more of the same: views may wait for it
  std::vector<RunBatch::Series> series;
  std::vector<LogRow> logs;
  std::vector<EpochRow> epochs;  // one comes again where it is evaluated later
  std::vector<Error> errors;
  std::vector<Error> warnings;  // the run goes on
  std::vector<RunRestart> restarts;
  std::optional<std::int64_t> checkpoint;  // the step of one that was saved
  std::optional<RunRow> row;               // where it changed: phase, figures
  bool started = false;                    // the run's first record came
  std::vector<StepBreakdown> breakdown;    // of all ranks; empty: as before
  bool slowChanged = false;
  std::optional<Straggler> slow;  // valid where slowChanged
  std::vector<StragglerChange> stragglers;
  std::vector<ReportedScalar> scalars;          // those that count
  std::vector<run::v1::ProgramSource> sources;  // of each rank
  struct Node {
    std::string name;
    bool reachable = true;
    bool live = false;
    Message detail;
  };
  std::vector<Node> nodes;                       // where it changed; live: back-fill has ended
  std::optional<std::set<std::string>> leftOut;  // nodes it goes on without, where they changed
  // What the run still waits for, trained to its end; empty: nothing any more.
  std::optional<Message> awaited;
  std::optional<ArtifactsUpdate> artifacts;  // while a program's files are fetched, after its end
  bool ending = false;                       // how it ended is known; last records are read
  bool finished = false;                     // last update of the run; row has the figures
};

using RunObserver = std::function<void(const RunUpdate&)>;

}  // namespace lockstep::app
