// The checkpoints that the ranks of a run can read together, and which rank has which files.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "engine/runtime/checkpoint.h"
#include "engine/runtime/groups.h"

namespace lockstep::runtime {

// Identifies a checkpoint: its step, and the id that all of its files share.
using CheckpointKey = std::pair<std::int64_t, std::string>;

// The files of a checkpoint on one rank's disk.
struct SeenCheckpoint {
  std::filesystem::path folder;
  std::optional<Manifest> manifest;
  std::map<std::string, std::shared_ptr<TensorReader>> files;  // by name
};

// The files of a checkpoint over all ranks.
struct KnownCheckpoint {
  std::string folder;                            // path on the first rank that has it
  std::set<int> withManifest;                    // ranks
  std::map<std::string, std::set<int>> holders;  // by file
};

class Inventory {
 public:
  // Collective. `path` is a checkpoint or a folder of checkpoints; it may differ by rank.
  static Result<Inventory> make(const std::string& path, const RankState& state);

  // The newest first.
  const std::map<CheckpointKey, KnownCheckpoint, std::greater<>>& known() const { return known_; }
  // Errors of unreadable checkpoints, by step, newest first.
  const std::map<std::int64_t, std::vector<Error>, std::greater<>>& problems() const {
    return problems_;
  }
  // Collective. The manifest of a known checkpoint.
  Result<Manifest> manifestOf(const CheckpointKey& key, const RankState& state) const;
  // Returns a file on this rank; null if it does not have it.
  const SeenCheckpoint* seen(const CheckpointKey& key) const;
  // Excludes a file that is damaged on a rank.
  void strike(const CheckpointKey& key, const std::string& file, int rank);

 private:
  void look(const std::filesystem::path& folder, std::int64_t step);
  void note(std::int64_t step, Error error);
  std::string text(int rank) const;

  std::map<CheckpointKey, SeenCheckpoint> seen_;
  std::map<CheckpointKey, KnownCheckpoint, std::greater<>> known_;
  std::map<std::int64_t, std::vector<Error>, std::greater<>> problems_;
};

}  // namespace lockstep::runtime
