// Relaunch: the inputs to launch a run of the history again on its cluster, from the start or from
// its last checkpoint.
#pragma once

#include <string>

#include "app/history/history.h"
#include "app/runs/preview.h"
#include "engine/base/status.h"

namespace lockstep::app {

struct Relaunch {
  std::string run, name;              // of the run it repeats, and of its model
  std::string specYaml, clusterYaml;  // as they ran
  std::string clusterName;
  CheckpointFolders checkpoints;  // empty: start from the beginning
  bool isUnderWay = false;        // the run: it has to be stopped first
};

enum class RelaunchKind {
  kRerun,
  kResume,
  kFaster,  // with a strategy to be sought; reruns a run that has trained to its end, and an ended
            // one without checkpoints, else resumes
};

// The spec is the original text if that is all that ran, else the effective spec. Errors:
// kNotFound; kFailedPrecondition if there is no checkpoint to resume from.
Result<Relaunch> relaunchOf(const History& history, const std::string& run, RelaunchKind kind);

// Of a run that was asked to stop, to be resumed. Errors: kFailedPrecondition where it ended
// otherwise, or goes on.
Status mustHaveStopped(const RunRow& row);

// Returns the folders of a run's checkpoints. Errors: kFailedPrecondition, also where it takes
// none.
Result<CheckpointFolders> checkpointFoldersOf(const std::string& run,
                                              const RunDocuments& documents);

}  // namespace lockstep::app
