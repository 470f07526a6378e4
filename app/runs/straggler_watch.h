// StragglerWatch: which rank or link of a run makes the others wait, and why. Joins the steps
// (engine/analysis) with what the nodes sample of processes, links and GPUs. No threads, no I/O.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "app/runs/gpu_watch.h"
#include "app/runs/link_watch.h"
#include "app/runs/rank_watch.h"
#include "app/runs/straggler_story.h"
#include "engine/analysis/analysis.h"
#include "lockstep/run/v1/telemetry.pb.h"

namespace lockstep::app {

class StragglerWatch {
 public:
  void take(const std::string& node, double seconds, const run::v1::NodeSample& sample);
  void stepCompleted() { ranks_.stepCompleted(); }
  void clear();  // the ranks are started anew

  // Looks at what was taken since, and returns what has changed. `step` is the last one completed.
  std::vector<StragglerChange> look(const analysis::StepAnalyzer& steps, const GpuWatch& gpus,
                                    const std::function<std::string(int rank)>& nodeOf,
                                    std::int64_t step, bool ended);
  const std::optional<Straggler>& slow() const { return slow_; }

 private:
  Straggler linkOf(const SlowLink& link, double stepSeconds, std::int64_t step) const;

  RankWatch ranks_;
  LinkWatch links_;
  StragglerStory story_;
  std::optional<Straggler> slow_;
};

}  // namespace lockstep::app
