// Checkpoints: the logical state of a run (rule 15): names, global shapes and how far the run was.
// A checkpoint is a folder `step-<n>` with state.safetensors, complete or absent: written under a
// temporary name, synced, renamed. Tensors are "<slot>/<member>": "params/dense1.weight",
// "adam.m/dense1.weight"; the flat groups they lie in while running are not in the file.
#pragma once

#include <string>

#include "engine/base/status.h"
#include "engine/plan/plan.h"
#include "engine/runtime/executor.h"

namespace lockstep::runtime {

struct Progress {
  std::int64_t step = 0;         // updates done; with the batch it says where in the data the run is
  double lossSum = 0;            // of the epoch under way: Σ w·loss and Σ w
  double weightSum = 0;
  std::uint64_t seed = 0;
};

// Writes <folder>/step-<n>, then removes all but the newest `keep`. Returns the new folder's path.
Result<std::string> writeCheckpoint(const std::string& folder, int keep, const plan::Plan& plan,
                                    StateArena& state, const Progress& progress);
// Reads into `state`. Errors: kNotFound; kDataLoss; kInvalidArgument where a tensor is missing or
// has another shape or type than the plan, naming both.
Result<Progress> readCheckpoint(const std::string& checkpoint, const plan::Plan& plan,
                                StateArena& state);
// The newest checkpoint in a folder of checkpoints, or the folder itself if it is one. kNotFound.
Result<std::string> newestCheckpoint(const std::string& folder);

// The parameters alone, by their names in the model.
Status writeModel(const std::string& path, const plan::Plan& plan, StateArena& state);
// SHA-256 over name, shape, type and bytes of each parameter, in the order of names.
std::string weightsSha256(const plan::Plan& plan, StateArena& state);

}  // namespace lockstep::runtime
