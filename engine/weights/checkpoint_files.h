// The file format of checkpoints. The folder step-000000040 has a shard of each rank that holds
// state (shard-00002.safetensors from rank 2) and manifest.json, which lists the contents of every
// shard; or, from a run of one rank, and from some runs of earlier versions, state.safetensors with
// the full state.
//
// The manifest is JSON, followed by a line with the CRC-32C of everything before it:
// {"format": "lockstep-checkpoint-2", "id": "…", "metadata": {"step": "40", "batch": "64", …},
//  "tensors": {"params/dense1.weight": {"dtype": "F32", "shape": [784, 128]}, …},
//  "files": {"shard-00000.safetensors": [["params/dense1.weight", dim, part, parts, begin, end],
//                                        …], …}}
// All pieces of one tensor are split alike. If ranks do not share one folder, each folder has what
// its ranks hold, and pieces overlap.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/plan/pieces.h"
#include "engine/plan/plan.h"
#include "engine/weights/safetensors.h"

namespace lockstep::weights {

using plan::HeldPiece;
using plan::Piece;

struct Progress {
  // updates done; with the batch it says where in the data the run is
  std::int64_t step = 0;
  double lossSum = 0;  // of the epoch under way: Σ w·loss and Σ w
  double weightSum = 0;
  std::uint64_t seed = 0;
};

inline constexpr std::string_view kCheckpointPrefix = "step-";
inline constexpr std::string_view kStateFile = "state.safetensors";
inline constexpr std::string_view kManifestFile = "manifest.json";
std::string shardFile(int rank);
// Whether the file of a checkpoint may have this name.
bool isDataFile(std::string_view name);
// Returns the path of the checkpoint of a step.
std::filesystem::path checkpointAt(const std::filesystem::path& folder, std::int64_t step);

// Those of a folder with their steps, the newest last.
std::vector<std::pair<std::int64_t, std::filesystem::path>> checkpointsIn(
    const std::filesystem::path& folder);
bool isCheckpoint(const std::filesystem::path& folder);
// The newest checkpoint in a folder of checkpoints, or the folder itself if it is one. kNotFound.
Result<std::string> newestCheckpoint(const std::string& folder);

// Renames `temporary` to `checkpoint`, in place of an earlier one, which stays where that fails: a
// process of an earlier generation finds its temporary folder removed. Both are in one folder.
Status publishCheckpoint(const std::filesystem::path& temporary,
                         const std::filesystem::path& checkpoint);

using Metadata = std::map<std::string, std::string>;
Metadata metadataOf(const plan::Plan& plan, const Progress& progress);

struct Manifest {
  std::string id;  // the same in the manifest and all files of a checkpoint
  Metadata metadata;
  std::map<std::string, TensorInfo> tensors;           // by name
  std::map<std::string, std::vector<Piece>> contents;  // by file
  std::int64_t step() const;                           // -1: none
};
std::string textOf(const Manifest& manifest);
// Errors: kDataLoss naming `path` and the defect.
Result<Manifest> parseManifest(std::string_view text, const std::string& path);
Manifest manifestOf(const TensorReader& whole);  // for a state.safetensors

// Returns the files of these ranks that have a piece which no other rank's file has.
std::vector<std::string> filesOnlyOf(const Manifest& manifest, const std::set<int>& ranks);

// Returns a number from the metadata; kDataLoss if it is missing or not a number.
Result<std::int64_t> integerOf(const Metadata& metadata, const std::string& key);
Result<double> numberOf(const Metadata& metadata, const std::string& key);
Result<Progress> progressOf(const Metadata& metadata);

}  // namespace lockstep::weights
