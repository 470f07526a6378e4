// The batch script of a job: one agent on each of its nodes, for as long as runs are under way.
#pragma once

#include <string>

#include "engine/base/status.h"

namespace lockstep::spec::v1 {
class PlacementSpec;
}

namespace lockstep::app {

struct BatchScriptFacts {
  std::string version;     // of the agent deployed to WORKDIR/versions, which all nodes share
  std::string name;        // of the job
  bool allowRoot = false;  // agents may run as root
};

// Returns the script, for `sbatch` in WORKDIR/slurm. The files of job J are in WORKDIR/slurm/J:
// N/NODE, the work folder of a node's agent after N restarts of the job; `agent`, a link to the
// version; and the file `notice` after the
// notice before the time limit, `notice.term` where runs were under way when the job was ended.
std::string batchScript(const spec::v1::PlacementSpec& placement, const BatchScriptFacts& facts);

}  // namespace lockstep::app
