#include "engine/runtime/checkpoint_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "engine/base/list_folder.h"
#include "engine/base/memory.h"
#include "engine/base/threads.h"
#include "engine/base/unique_fd.h"
#include "engine/runtime/checkpoint_files.h"
#include "engine/runtime/gather.h"
#include "engine/runtime/heartbeat.h"

namespace lockstep::runtime {
namespace {

namespace fs = std::filesystem;

void syncFolder(const fs::path& folder) {
  if (const UniqueFd fd(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)); fd)
    fsync(fd.get());
}

// Each is renamed before it is removed, so that no reader finds half a checkpoint.
void removeAllBut(const fs::path& root, int keep, const fs::path& newest) {
  std::error_code error;
  const auto all = checkpointsIn(root);
  for (std::size_t i = 0; i + static_cast<std::size_t>(std::max(keep, 1)) < all.size(); ++i) {
    // Those with higher steps are damaged where the run resumed from one before them.
    if (all[i].second == newest) continue;
    const fs::path trash = root / ("." + all[i].second.filename().string() + ".old");
    fs::remove_all(trash, error);
    fs::rename(all[i].second, trash, error);
    if (!error) fs::remove_all(trash, error);
  }
}

// What a process that was killed while it wrote or removed a checkpoint has left.
void removeLeftovers(const fs::path& root) {
  std::error_code ignored;
  const std::string hidden = "." + std::string(kCheckpointPrefix);
  for (const fs::path& entry : listFolder(root))
    if (entry.filename().string().starts_with(hidden)) fs::remove_all(entry, ignored);
}

}  // namespace

CheckpointWriter::CheckpointWriter(std::string folder, int keep, const RankState& state)
    : folder_(std::move(folder)),
      keep_(keep),
      state_(state),
      places_(placesOf(state.plan, [](std::string_view) { return true; })) {
  std::size_t bytes = 0;
  for (const Place& place : places_) {
    tensors_.push_back(
        {tensorName(*place.slot, place.member()), place.slot->type.dtype, place.member().shape});
    offsets_.push_back(bytes);
    bytes += static_cast<std::size_t>(tensors_.back().bytes());
  }
}

CheckpointWriter::~CheckpointWriter() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    leaves_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

Result<bool> CheckpointWriter::isFree() {
  std::int64_t free = 0;
  if (state_.rank == 0) {
    const std::lock_guard lock(mutex_);
    free = writing_ || written_ || !result_.ok() ? 0 : 1;
  }
  LOCKSTEP_TRY(state_.groups.broadcast(&free, sizeof free));
  return free != 0;
}

Status CheckpointWriter::begin(const Progress& progress) {
  const auto keep = [this](std::size_t index, std::span<const std::byte> tensor) {
    std::memcpy(snapshot_.data() + offsets_[index], tensor.data(), tensor.size());
  };
  if (state_.rank == 0 && !thread_.joinable()) {
    const std::size_t bytes =
        tensors_.empty() ? 0 : offsets_.back() + static_cast<std::size_t>(tensors_.back().bytes());
    LOCKSTEP_TRY(withMemoryFor("a checkpoint's snapshot", static_cast<std::int64_t>(bytes), [&] {
      snapshot_.resize(bytes);
      thread_ = helperThread("checkpoint", [this] { work(); });
      return Status();
    }));
  }
  Status none;
  LOCKSTEP_TRY(gather(state_, places_, "a checkpoint's snapshot", keep, {}, none));
  if (state_.rank != 0) return {};
  const std::lock_guard lock(mutex_);
  progress_ = progress;
  given_ = 0;
  lastProgress_ = monotonicNow();
  writing_ = true;
  changed_.notify_all();
  return {};
}

Status CheckpointWriter::finish() {
  Heartbeat heartbeat(state_.groups, state_.rank, "writing " + folder_);
  if (state_.rank == 0) {
    std::unique_lock lock(mutex_);
    while (writing_) {  // each tensor has the disk's limit to itself
      const std::size_t given = given_;
      LOCKSTEP_TRY(heartbeat.await(lock, changed_, [&] { return !writing_ || given_ > given; }));
    }
  }
  return heartbeat.meet();
}

Result<std::optional<CheckpointWriter::Written>> CheckpointWriter::written() {
  std::unique_lock lock(mutex_);
  if (writing_ && monotonicNow() - lastProgress_ > diskWait().limit.count()) {
    const Error error = diskStuck("writing " + folder_);
    lock.unlock();
    if (diskWait().onStuck) diskWait().onStuck(error);
    return error;
  }
  LOCKSTEP_TRY(std::exchange(result_, {}));
  return std::exchange(written_, {});
}

void CheckpointWriter::work() {
  removeLeftovers(folder_);
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return writing_ || leaves_; });
    if (leaves_) return;
    lock.unlock();
    const fs::path target =
        fs::path(folder_) / fmt::format("{}{:09}", kCheckpointPrefix, progress_.step);
    Status status = withMemoryFor("what rank 0 writes", 0, [&] { return write(target); });
    if (!status.ok()) {
      status.error().step = progress_.step;
      status.error().next = status.code() == Code::kResourceExhausted
                                ? "free space where the node keeps its runs, then resume"
                                : "check that the node's work folder can be written, then resume";
    }
    lock.lock();
    if (status.ok())
      written_ = Written{progress_.step, target.string()};
    else
      result_ = std::move(status);
    writing_ = false;
    changed_.notify_all();
  }
}

Status CheckpointWriter::write(const std::string& path) {
  const fs::path root(folder_), target(path);
  const fs::path temporary = root / fmt::format(".{}{}.tmp", kCheckpointPrefix, progress_.step);
  std::error_code error;
  fs::create_directories(root, error);
  if (error)
    return systemError(error.value(), message("cannot make the checkpoint folder {}", folder_));
  fs::remove_all(temporary, error);
  fs::create_directory(temporary, error);
  if (error) return systemError(error.value(), message("cannot make {}", temporary.string()));
  const auto bytes = [this](std::size_t index) -> Result<std::span<const std::byte>> {
    const std::lock_guard lock(mutex_);
    if (leaves_) return makeError(Code::kAborted, "the training ended while it was written");
    given_ = index;
    lastProgress_ = monotonicNow();
    changed_.notify_all();
    return std::span<const std::byte>(snapshot_).subspan(
        offsets_[index], static_cast<std::size_t>(tensors_[index].bytes()));
  };
  Status written = writeTensors(temporary / kStateFile, tensors_,
                                {{"format", "lockstep-checkpoint-1"},
                                 {"model", state_.plan.name},
                                 {"batch", fmt::format("{}", state_.plan.globalBatch)},
                                 {"step", fmt::format("{}", progress_.step)},
                                 {"loss_sum", fmt::format("{}", progress_.lossSum)},
                                 {"weight_sum", fmt::format("{}", progress_.weightSum)},
                                 {"seed", fmt::format("{}", progress_.seed)}},
                                bytes, Checksums::kCrc32c);
  if (!written.ok()) {
    fs::remove_all(temporary, error);
    return written;
  }
  syncFolder(temporary);
  fs::remove_all(target, error);
  fs::rename(temporary, target, error);
  if (error) return systemError(error.value(), message("cannot rename to {}", target.string()));
  syncFolder(root);
  removeAllBut(root, keep_, target);
  return {};
}

}  // namespace lockstep::runtime
