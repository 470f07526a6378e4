// Which checkpoints the ranks of a run can read together, and which rank sees which of their files.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "engine/runtime/checkpoint_files.h"
#include "engine/runtime/groups.h"

namespace lockstep::runtime {

// A checkpoint, on one rank or on several: its step, and the id that all of its files have.
using CheckpointKey = std::pair<std::int64_t, std::string>;

// What one rank sees of a checkpoint.
struct SeenCheckpoint {
  std::filesystem::path folder;
  std::optional<Manifest> manifest;
  std::map<std::string, std::shared_ptr<TensorReader>> files;  // by name
};

// What all ranks see.
struct KnownCheckpoint {
  std::string folder;                            // as the first rank that sees it names it
  std::set<int> withManifest;                    // ranks
  std::map<std::string, std::set<int>> holders;  // by file
};

class Inventory {
 public:
  // Collective. `path` is a checkpoint or a folder of them, on every rank its own.
  static Result<Inventory> make(const std::string& path, const RankState& state);

  // The newest first.
  const std::map<CheckpointKey, KnownCheckpoint, std::greater<>>& known() const { return known_; }
  // Why something that should be a checkpoint is none, by step, the newest first.
  const std::map<std::int64_t, std::vector<Error>, std::greater<>>& problems() const {
    return problems_;
  }
  // Whether some rank may not read what is there, for want of rights or memory.
  const std::optional<Error>& refused() const { return refused_; }
  // Collective. The manifest of a known checkpoint.
  Result<Manifest> manifestOf(const CheckpointKey& key, const RankState& state) const;
  // On this rank; null where it does not see it.
  const SeenCheckpoint* seen(const CheckpointKey& key) const;
  // A file that turned out to be damaged on a rank.
  void strike(const CheckpointKey& key, const std::string& file, int rank);

 private:
  void look(const std::filesystem::path& folder, std::int64_t step);
  void note(std::int64_t step, Error error);
  std::string text(int rank) const;

  std::map<CheckpointKey, SeenCheckpoint> seen_;
  std::map<CheckpointKey, KnownCheckpoint, std::greater<>> known_;
  std::map<std::int64_t, std::vector<Error>, std::greater<>> problems_;
  std::optional<Error> refused_;
};

}  // namespace lockstep::runtime
