// RankWatch: the processes of a run's ranks, as their nodes sample them, and why one of them is
// slow. No threads, no I/O.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "app/runs/gpu_watch.h"
#include "app/runs/straggler.h"
#include "engine/analysis/analysis.h"
#include "lockstep/run/v1/telemetry.pb.h"

namespace lockstep::app {

class RankWatch {
 public:
  // `seconds`: when it was taken.
  void take(const std::string& node, double seconds, const run::v1::NodeSample& sample);
  void stepCompleted();  // no rank is halted now
  void clear() {         // the ranks are started anew
    loads_.clear();
    disks_.clear();
  }

  // Returns a rank whose process has been stopped in the last samples, with no step completed.
  struct Halted {
    int rank = 0;
    double seconds = 0;
  };
  std::optional<Halted> halted() const;
  // Returns the likely cause, by the rank's own samples beside those of the others.
  SlowEvidence evidence(const analysis::Straggler& straggler, const GpuWatch& gpus) const;

 private:
  struct Load {
    // fading sums over samples
    double seen = 0, stopped = 0, cpu = 0, waiting = 0, throttled = 0, diskFaults = 0;
    int stoppedInRow = 0;          // samples since the last that was not, or the last step
    double stoppedAt = 0, at = 0;  // the first of them; the last sample
    std::string node;
    int gpu = -1;  // that it computes on
  };
  struct Disk {  // fading sums over samples
    double seen = 0, busy = 0;
  };
  struct Compared;
  void take(const std::string& node, double seconds, const run::v1::RankSample& sample);
  Compared compare(int rank, const GpuWatch& gpus) const;
  bool hasRank(const std::string& node) const;
  // Beside the other nodes that have ranks.
  std::optional<analysis::BesideOthers> diskBusy(const std::string& node) const;
  static SlowCause cause(const analysis::Straggler& straggler, const Compared& figures);

  std::map<int, Load> loads_;
  std::map<std::string, Disk> disks_;  // by node
};

}  // namespace lockstep::app
