// The environment of a program's ranks: what their frameworks find each other by.
//
// torch.distributed, DeepSpeed, Accelerate and Lightning read what torchrun sets
// (torch/distributed/elastic/agent/server/local_elastic_agent.py), or, for a command that calls
// torchrun itself, torchrun reads PET_…; TensorFlow reads TF_CONFIG, JAX JAX_COORDINATOR_ADDRESS.
// Programs that were written for Slurm, and JAX in a job of Slurm, read SLURM_PROCID.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/base/unique_fd.h"
#include "lockstep/node/v1/worker.pb.h"

namespace lockstep::agent {

struct ProgramRank {
  int rank = 0;
  std::string run;
  int restarts = 0;  // of the run, before this start
  int maxRestarts = 0;
  int threads = 1;
  node::v1::ProgramPlaces places;                    // of all ranks, by rank
  std::string pythonFolder, pythonPipe, localPipes;  // of PythonHooks
  int rasPort = 0;                                   // for NCCL's RAS, on this node; 0: NCCL's own
  std::string ncclProfiler;                          // the plug-in's file; "": none
  std::map<std::string, std::string> secrets;        // variables of workload.env_from
};

// Returns what rank 0 tells of where all ranks are. Errors: kInternal where it is something else.
Result<node::v1::ProgramPlaces> parsePlaces(const std::string& told, int world);

// Returns the environment, "NAME=value" each: `inherited`, then Lockstep's, then the spec's and the
// secrets, of which later ones replace earlier ones. `folder` is that of the code.
std::vector<std::string> programEnvironment(const spec::v1::WorkloadSpec& workload,
                                            const ProgramRank& rank, const std::string& folder,
                                            const std::vector<std::string>& inherited);
// Likewise what does not depend on the rank: the path of its Python, and the spec's variables.
std::vector<std::string> pythonEnvironment(const spec::v1::WorkloadSpec& workload,
                                           const std::string& folder,
                                           const std::vector<std::string>& inherited);
// Likewise, with the secrets: for the commands of workload.setup.
std::vector<std::string> setupEnvironment(const spec::v1::WorkloadSpec& workload,
                                          const std::map<std::string, std::string>& secrets,
                                          const std::string& folder,
                                          const std::vector<std::string>& inherited);
// Returns workload.python.path on this node: below the code where it is relative.
std::string pythonPath(const spec::v1::PythonSpec& python, const std::string& folder);
// Returns the value of a variable; "" where it is not set.
std::string valueIn(const std::vector<std::string>& environment, std::string_view name);

// A TCP port that is free on this node, on all addresses. While it is held, no other gets it.
struct FreePort {
  UniqueFd held;
  int port = 0;
};
Result<FreePort> freePort();

}  // namespace lockstep::agent
