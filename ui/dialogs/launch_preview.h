// The inputs of the launch dialog, and the plan and prediction made from them. No widgets;
// thread-safe.
#pragma once

#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "app/advice/advice.h"
#include "app/runs/launcher.h"
#include "ui/models/candidate_model.h"

namespace lockstep::ui {

// All that the preview depends on.
struct LaunchInputs {
  std::string specYaml, specFile, clusterYaml, clusterFile, comm, localFolder, resumedRun;
  app::CheckpointFolders resumeFrom;
  std::vector<std::string> sets, ranks;
  std::optional<bool> requeue;  // other than the cluster's text says
  std::vector<app::HostFacts> hosts;
  int localNodes = 0;                      // 0: the cluster's text
  std::string repeatedRun, historyFolder;  // what it measured counts for advice; "": none
  bool measure = true;
  std::stop_token stop = {};  // ends the search for a strategy
};

struct LaunchPreview {
  std::optional<app::LaunchRequest> request;
  Result<app::Preview> preview;
  std::vector<app::HostFacts> hosts = {};  // that it was planned for
  std::int64_t samples = 0;                // of the training data; 0: not known
};
LaunchPreview makeLaunchPreview(const LaunchInputs& inputs);
// The same, and counts the samples of the training data.
LaunchPreview makeCountedPreview(const LaunchInputs& inputs);

// The best strategies of a launch, as `lockstep advise` finds them; of one that repeats a run on
// the same ranks as `lockstep advise --run`, where it has measured enough: else
// Advice::unmeasured says why not. `pins` are paths of
// options that keep their value; `precisions` are tried besides the launch's own.
Result<app::Advice> adviseLaunch(const LaunchInputs& inputs, const std::vector<std::string>& pins,
                                 const std::vector<std::string>& precisions,
                                 std::function<void(std::size_t planned)> onProgress);

// Compares strategies: name and inputs of each. Ends when their stop is requested.
std::vector<Candidate> compareStrategies(
    const std::vector<std::pair<std::string, LaunchInputs>>& strategies);

}  // namespace lockstep::ui
