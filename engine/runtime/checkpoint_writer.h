// Writes the checkpoints of a run while it trains on. Between two steps each rank copies what it
// will write; a thread of it writes that, and no collective waits for a disk.
//
// A checkpoint is published when all ranks have written: in each folder one of the ranks that share
// it adds the manifest and renames. The ranks learn how far the others are in attend(), which they
// call when one of them has news.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "engine/base/clock.h"
#include "engine/runtime/agree.h"
#include "engine/runtime/checkpoint.h"
#include "engine/runtime/checkpoint_files.h"

namespace lockstep::runtime {

struct CheckpointTarget {
  std::string folder;  // of this rank; ranks may share it. Checkpoints are <folder>/step-<n>
  int keep = 2;        // the newest so many stay
  // Rank 0 alone writes, the whole state in one file, which the ranks gather in its memory: for
  // servers, and for those that read it on a node of their own.
  bool gathered = false;
};

class CheckpointWriter {
 public:
  CheckpointWriter(CheckpointTarget target, const RankState& state);
  ~CheckpointWriter();  // waits for the disk

  // Collective. Finds out which ranks share a folder, and removes what killed processes left there.
  Status open();
  // Of the ranks together, equal on all: a checkpoint is being written or published, or old ones
  // removed.
  bool isBusy() const { return phase_ != Phase::kIdle; }
  // Of this rank: the others wait for it to attend. kDeadlineExceeded where its disk has not
  // responded for DiskWait::limit.
  Result<bool> hasNews();
  // Collective. Goes on to what comes next when all ranks are done. Returns whether a rank asks for
  // a checkpoint. Errors: of writing or publishing, on the rank that failed; kAborted on others.
  Result<bool> attend(bool asks);
  // Collective, while not busy. Takes a snapshot, which is then written.
  Status begin(const Progress& progress);
  // Collective. Waits until everything is written and published.
  Status finish();

  struct Written {
    std::int64_t step = 0;
    std::string folder;
  };
  // The checkpoint that was published since the last call, if any.
  std::optional<Written> written() { return std::exchange(written_, {}); }

 private:
  enum class Phase : std::uint8_t { kIdle, kWriting, kPublishing, kCleaning };
  struct Part {  // of the snapshot, in the order of the file
    TensorInfo tensor;
    std::size_t offset = 0;  // in the snapshot
  };

  Status findFolders();
  void listParts();
  Status fillSnapshot();
  void start(Phase phase);
  void work();
  Status write();
  Status publish();
  Status clean();
  bool isLeader() const { return folders_[static_cast<std::size_t>(state_.rank)] == state_.rank; }
  std::string temporary() const;
  std::string target() const;

  const CheckpointTarget to_;
  const RankState state_;
  std::string nonce_;         // of the run's writers
  std::vector<int> folders_;  // by rank: the first rank with the same folder
  std::vector<HeldPiece> pieces_;
  std::vector<Part> parts_;
  std::size_t bytes_ = 0;
  Phase phase_ = Phase::kIdle;
  std::optional<Written> written_;

  // The thread reads these while `job_` is not kIdle, the others while it is.
  std::vector<std::byte> snapshot_;
  Progress progress_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Phase job_ = Phase::kIdle;
  bool leaves_ = false;
  bool isDone_ = false;           // with the job of `phase_`
  Nanoseconds lastProgress_ = 0;  // of the job
  Status result_;                 // of the job
  std::thread thread_;
};

}  // namespace lockstep::runtime
