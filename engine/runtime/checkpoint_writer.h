// Writes a run's checkpoints asynchronously. Between two steps each rank takes a snapshot of its
// part; a thread writes the snapshot, and no collective waits for a disk.
//
// A checkpoint is published when all ranks have written: one rank per folder adds the manifest and
// renames the folder. Ranks exchange their progress in attend(), which all ranks call when one of
// them has news.
#pragma once

#include <atomic>
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
#include "engine/runtime/aligned_memory.h"
#include "engine/runtime/checkpoint.h"
#include "engine/runtime/divergence.h"

namespace lockstep::runtime {

struct CheckpointTarget {
  std::string folder;  // this rank's; ranks may share it. Checkpoints are <folder>/step-<n>
  // As TrainerOptions::checkpointFolderMade: ranks that lack the folder share that of the others
  // once it is back. Until then no checkpoint can be written.
  bool isMade = false;
  int keep = 2;                                       // number of newest checkpoints to keep
  const std::atomic<std::int64_t>* copied = nullptr;  // as TrainerOptions::copiedCheckpoint
};

class CheckpointWriter {
 public:
  CheckpointWriter(CheckpointTarget target, const RankState& state);
  ~CheckpointWriter();  // waits for the disk

  // Collective. Finds out which ranks share a folder, and removes leftovers of killed processes.
  // Allocates the snapshot's memory asynchronously; on a device, the arena's mirror is the
  // snapshot.
  Status open();
  // The same on all ranks: true while a checkpoint is written or published, or old ones are
  // removed.
  bool isBusy() const { return phase_ != Phase::kIdle; }
  // Whether this rank needs all ranks to call attend(): its part of the phase is done. Servers
  // cannot ask, so a rank that is done asks again for those that are not, each pause twice as long
  // as the one before, up to a limit. kDeadlineExceeded if its disk has not responded for
  // DiskWait::limit.
  Result<bool> hasNews();
  // Returns the pause before a rank asks again, so long after the phase's begin.
  static Nanoseconds pauseAfter(Nanoseconds elapsed, bool isAsynchronous);
  // Collective. Starts the next phase when all ranks have finished the current one. Returns whether
  // a rank requests a checkpoint. A checkpoint that a rank cannot write or publish is given up by
  // all: see failed().
  Result<bool> attend(bool asks);
  // Collective. Precondition: not busy, and the arena was fetched. Takes a snapshot of what this
  // rank writes, and returns the first tensor of it that is not finite. All take rank 0's
  // `progress`.
  Result<std::optional<Found>> takeSnapshot(const Progress& progress);
  // Collective. Starts to write the snapshot. Until it is written, the arena is not fetched again.
  void begin();
  // Collective. Waits until everything is written and published, or given up.
  Status finish();
  // Likewise, but leaves a disk to its work for which a second is too short: see isBusy().
  Status finishSoon();

  struct Written {
    std::int64_t step = 0;
    std::string folder;
  };
  // Returns the checkpoint published since the last call, if any.
  std::optional<Written> written() { return std::exchange(written_, {}); }
  // The error of the last checkpoint, if it was given up, on the rank that failed; kAborted on the
  // others.
  const Status& failed() const { return failed_; }

 private:
  enum class Phase : std::uint8_t { kIdle, kAllocating, kWriting, kPublishing, kCleaning };
  struct Part {  // of the snapshot, in the order of the file
    TensorInfo tensor;
    std::size_t offset = 0;  // in the snapshot
    NonFiniteTensor name;    // should it not be finite
  };

  // Makes this rank's folder, unless it was made before. Returns whether there is one.
  Result<bool> openFolder() const;
  Status findFolders();
  void listParts();
  bool isMirror() const { return state_.arena.isMirrored(); }
  std::span<std::byte> snapshotOf(const Part& part) const;
  void start(Phase phase);
  // Collective. Waits for the current phase, for a second at most. Returns whether it has ended.
  Result<bool> awaitPhase();
  void startJob(Phase job);
  void work();
  Status run(Phase job);
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
  Nanoseconds phaseBegin_ = 0, nextNews_ = 0;  // see hasNews()
  std::optional<Written> written_;
  Status failed_;

  // Used by the thread while `job_` is not kIdle, by other threads while it is, like failed_.
  bool published_ = false;  // by this rank
  AlignedMemory snapshot_;  // of bytes_; none where the arena's mirror is it
  Progress progress_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Phase job_ = Phase::kIdle;
  bool leaves_ = false;
  bool isDone_ = false;           // the job of `phase_` has finished
  Nanoseconds lastProgress_ = 0;  // of the job
  Status result_;                 // of the job
  std::thread thread_;
};

}  // namespace lockstep::runtime
