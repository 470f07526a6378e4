// How checkpoints lie in their folder. step-000000040 has state.safetensors, which is whole, or a
// part in shard-00002.safetensors from each rank 2, and manifest.json, which says what is where.
//
// The manifest is JSON with the CRC-32C of all before it in a last line:
// {"format": "lockstep-checkpoint-2", "id": "…", "metadata": {"step": "40", "batch": "64", …},
//  "tensors": {"params/dense1.weight": {"dtype": "F32", "shape": [784, 128]}, …},
//  "files": {"shard-00000.safetensors": [["params/dense1.weight", dim, part, parts, begin, end],
//                                        …], …}}
// All pieces of one tensor are of the same cut. Where ranks have folders of their own, each folder
// has what its ranks hold, and pieces overlap.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/plan/pieces.h"
#include "engine/runtime/checkpoint.h"

namespace lockstep::runtime {

using plan::HeldPiece;
using plan::Piece;

inline constexpr std::string_view kCheckpointPrefix = "step-";
inline constexpr std::string_view kStateFile = "state.safetensors";
inline constexpr std::string_view kManifestFile = "manifest.json";
std::string shardFile(int rank);

// Those of a folder with their steps, the newest last.
std::vector<std::pair<std::int64_t, std::filesystem::path>> checkpointsIn(
    const std::filesystem::path& folder);
bool isCheckpoint(const std::filesystem::path& folder);

using Metadata = std::map<std::string, std::string>;
Metadata metadataOf(const plan::Plan& plan, const Progress& progress);

struct Manifest {
  std::string id;  // equal in the manifest and in all files of one checkpoint
  Metadata metadata;
  std::map<std::string, TensorInfo> tensors;           // by name
  std::map<std::string, std::vector<Piece>> contents;  // by file
  std::int64_t step() const;                           // -1: there is none
};
std::string textOf(const Manifest& manifest);
// Errors: kDataLoss naming `path` and the defect.
Result<Manifest> parseManifest(std::string_view text, const std::string& path);
Manifest manifestOf(const TensorReader& whole);  // of a state.safetensors

// A number from the metadata; kDataLoss where it is missing or no number.
Result<std::int64_t> integerOf(const Metadata& metadata, const std::string& key);
Result<double> numberOf(const Metadata& metadata, const std::string& key);
Result<Progress> progressOf(const Metadata& metadata);

}  // namespace lockstep::runtime
