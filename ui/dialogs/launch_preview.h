// What a launch dialog asks for, and the plan and prediction made of it. No widgets; for any
// thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/runs/launcher.h"
#include "ui/models/candidate_model.h"

namespace lockstep::ui {

// Everything the preview depends on.
struct LaunchInputs {
  std::string specYaml, specFile, clusterYaml, clusterFile, comm, localFolder, resumeFrom,
      resumedRun;
  std::vector<std::string> sets, ranks;
  std::vector<app::HostFacts> hosts;
  int localNodes = 0;  // 0: the cluster's text
  bool measure = true;
};

struct LaunchPreview {
  std::optional<app::LaunchRequest> request;
  Result<app::Preview> preview;
};
LaunchPreview makeLaunchPreview(const LaunchInputs& inputs);

// The same settings with each strategy: its name, and what is asked for with it.
std::vector<Candidate> compareStrategies(
    const std::vector<std::pair<std::string, LaunchInputs>>& strategies);

// What rank 0 sends and receives in a training step.
std::int64_t wireBytes(const plan::Plan& plan);
// Of the rank that needs most.
std::int64_t peakMemory(const app::Preview& preview);

}  // namespace lockstep::ui
