// Writes the checkpoints of a run while it trains on. Between two steps the ranks gather the state
// in memory of rank 0, and a thread of rank 0 writes it: no collective waits for a disk. That
// memory is as much as the whole state.
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
#include "engine/runtime/checkpoint.h"
#include "engine/runtime/safetensors.h"
#include "engine/runtime/whole_tensors.h"

namespace lockstep::runtime {

class CheckpointWriter {
 public:
  // Writes <folder>/step-<n>, and then removes all but the newest `keep`.
  CheckpointWriter(std::string folder, int keep, const RankState& state);
  ~CheckpointWriter();  // waits for the disk

  // Collective. Whether begin() may be called: nothing is being written, and the end of the last
  // checkpoint has been asked for by written().
  Result<bool> isFree();
  // Collective. Takes a snapshot, which is then written.
  Status begin(const Progress& progress);
  // Collective. Waits until everything is written.
  Status finish();

  struct Written {
    std::int64_t step = 0;
    std::string folder;
  };
  // Rank 0: the checkpoint written since the last call, if any. An error of writing is returned
  // once; so is kDeadlineExceeded where the disk has not responded for DiskWait::limit.
  Result<std::optional<Written>> written();

 private:
  void work();
  Status write(const std::string& path);

  const std::string folder_;
  const int keep_;
  const RankState state_;
  const std::vector<Place> places_;
  std::vector<TensorInfo> tensors_;

  // Of rank 0. The thread reads the snapshot while `writing_`, the others while not.
  std::vector<std::byte> snapshot_;
  std::vector<std::size_t> offsets_;  // in `snapshot_`, by place
  Progress progress_;                 // of the snapshot
  std::mutex mutex_;
  std::condition_variable changed_;
  bool writing_ = false, leaves_ = false;
  std::size_t given_ = 0;         // tensors that the file has taken
  Nanoseconds lastProgress_ = 0;  // when it took the last one
  Status result_;                 // not yet returned
  std::optional<Written> written_;
  std::thread thread_;
};

}  // namespace lockstep::runtime
