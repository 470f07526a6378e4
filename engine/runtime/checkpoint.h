// Checkpoints: a run's state independent of placement: names, global shapes and progress.
// A checkpoint is a folder `step-<n>`, complete or absent: written under a temporary name, synced,
// renamed. Each rank writes a part of it, and any number of ranks with any placement can read it
// (see weights/checkpoint_files.h). All data has checksums, except in checkpoints of earlier
// versions. Tensors are named "<slot>/<member>": "params/dense1.weight", "adam.m/dense1.weight";
// files do not have the flat groups of a running plan.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "engine/base/status.h"
#include "engine/plan/plan.h"
#include "engine/runtime/executor.h"
#include "engine/weights/checkpoint_files.h"
#include "engine/weights/layout.h"

namespace lockstep::runtime {

using namespace weights;  // checkpoints are files of weights: their format is this module's too
using weights::Progress;  // not the callback of engine/base

// One rank's view of the run's state. What is split over ranks is gathered group by group, so that
// the whole state need not fit any one of them.
struct RankState {
  const plan::Plan& plan;
  int rank = 0;
  StateArena& arena;
  Groups groups;
};

// How non-finite state is handled.
enum class NonFinite : std::uint8_t { kRefused, kTaken };

// Checkpoints are written by CheckpointWriter (checkpoint_writer.h). Ranks wait for the slowest
// disk (see agree.h).

struct ReadOptions {
  std::uint64_t seed = 1;  // of this run
  NonFinite nonFinite = NonFinite::kRefused;
  std::function<void(const Error&)> warn;  // may be null: warnings that do not end the run
};
// Collective. Each rank reads its own parts from its own disk; parts that it does not find there
// are sent by a rank that has them. `checkpoint` is a checkpoint or a folder of checkpoints; of a
// folder, the newest one that is complete across all ranks and fits the plan is read, with a
// warning about each newer one. If the number of ranks changed, residuals of gradient compression
// are summed. Errors: kNotFound; kDataLoss naming file and tensor; kInvalidArgument where a tensor
// is missing or has another shape or type than the plan, naming both, where one is not finite, or
// where batch or seed differ; kResourceExhausted; kPermissionDenied; on other ranks than 0
// kAborted.
Result<Progress> readCheckpoint(const std::string& checkpoint, const ReadOptions& options,
                                const RankState& state);
// Reads the state of a one-rank plan without residuals from a checkpoint of any run of its model;
// of an evaluation plan, parameters and running statistics. Errors: as above, except for non-finite
// numbers.
Status readModel(const std::string& checkpoint, const RankState& state);
// What a training starts from in place of random weights: one of the two.
struct InitFrom {
  std::string file;        // safetensors, which each rank can read
  std::string checkpoint;  // of another run, or a folder of checkpoints: as for readCheckpoint()
  Names names;             // of the file
  bool partial = false;    // names may differ: what is not there keeps its values
};
// Collective. Reads parameters and running statistics, each rank those it holds; all other state
// stays as it is. `warn` is told what `partial` left out. Errors: those of WeightsFile::open() and
// of readCheckpoint(), of which seed and batch do not matter.
Status readWeights(const InitFrom& from, const ReadOptions& options, const RankState& state);

// A hash of this rank's parameters and running statistics that are replicated over the data axis:
// equal on ranks that differ only in their data coordinate. "" where it holds none.
std::string replicaHash(const plan::Plan& plan, int rank, StateArena& arena);

// The parameters and running statistics alone, by their names in the model: their SHA-256 over
// name, shape, type and bytes of each, in the order of names ("" off rank 0). Rank 0 writes them to
// `path` where that is not "", and gives them to `sink` where there is one. All ranks call it
// together.
Result<std::string> exportModel(const std::string& path, const RankState& state,
                                const TensorSink& sink = {});

}  // namespace lockstep::runtime
