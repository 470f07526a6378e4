// Relaunch: what it takes to launch a run of the history again, on the cluster it ran on: anew, or
// on from its last checkpoint.
#pragma once

#include <string>

#include "app/history/history.h"
#include "engine/base/status.h"

namespace lockstep::app {

struct Relaunch {
  std::string run, name;              // of the run it repeats, and of its model
  std::string specYaml, clusterYaml;  // as they ran
  std::string clusterName;
  std::string checkpoints;  // folder on the run's first node; "": anew
};

enum class RelaunchKind { kRerun, kResume };

// The spec is the text as it was written where that says all that ran, else the spec as it ran.
// Errors: kNotFound; kFailedPrecondition where there is nothing to go on from.
Result<Relaunch> relaunchOf(const History& history, const std::string& run, RelaunchKind kind);

// Where the run's first node keeps its checkpoints. Errors: kFailedPrecondition.
Result<std::string> checkpointFolderOf(const std::string& run, const RunDocuments& documents);

}  // namespace lockstep::app
