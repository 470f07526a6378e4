#include "engine/runtime/checkpoint_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <random>

#include "engine/base/file.h"
#include "engine/base/list_folder.h"
#include "engine/base/memory.h"
#include "engine/base/threads.h"
#include "engine/base/unique_fd.h"
#include "engine/runtime/finite.h"
#include "engine/runtime/heartbeat.h"

namespace lockstep::runtime {
namespace {

namespace fs = std::filesystem;

// Some file systems cannot sync a folder: that is no error, but a disk that fails is one.
Status syncFolder(const fs::path& folder) {
  const UniqueFd fd(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd || fsync(fd.get()) == 0 || errno != EIO) return {};
  return systemError(errno, message("cannot sync {}", folder.string()));
}

Status createdFolder(const fs::path& folder, const std::error_code& error) {
  if (!error) return {};
  return systemError(error.value(),
                     message("cannot create the checkpoint folder {}", folder.string()));
}

Status makeFolder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  return createdFolder(folder, error);
}

constexpr int kMode = 0600;  // of every file
constexpr const char* kSnapshot = "the checkpoint's snapshot";
// See hasNews(). Asynchronous workers wait for each other at each call.
constexpr Nanoseconds kLongestPause = 1'000'000'000;
constexpr Nanoseconds kFirstPauseOfAsynchronous = 100'000'000;
constexpr Nanoseconds kLongestPauseOfAsynchronous = 10'000'000'000;
constexpr std::size_t kUncopied = 8;  // checkpoints that are kept where copies are slow or fail

// What a process that was killed while it wrote or removed a checkpoint has left.
void removeLeftovers(const fs::path& root) {
  std::error_code ignored;
  for (const fs::path& entry : listFolder(root))
    for (const std::string_view hidden : {".step-", ".writer-"})
      if (entry.filename().string().starts_with(hidden)) fs::remove_all(entry, ignored);
}

// Copies numbers, unless they are there already. Returns whether all are finite. Works in blocks
// that the cache keeps, so that memory is read once.
bool isFiniteCopy(std::span<const std::byte> from, std::span<std::byte> to, DType dtype) {
  constexpr std::size_t kBlock = 1 << 17;
  bool finite = true;
  for (std::size_t at = 0; at < from.size(); at += kBlock) {
    const auto block = from.subspan(at, std::min(kBlock, from.size() - at));
    if (to.data() != from.data()) std::memcpy(to.data() + at, block.data(), block.size());
    finite = finite && firstNonFinite(block, dtype) < 0;
  }
  return finite;
}

// Path of a rank's marker file, which shows the other ranks that they share the folder.
std::string markOf(const fs::path& folder, const std::string& nonce, int rank) {
  return folder / fmt::format(".writer-{}-{}", nonce, rank);
}

}  // namespace

CheckpointWriter::CheckpointWriter(CheckpointTarget target, const RankState& state)
    : to_(std::move(target)), state_(state) {}

CheckpointWriter::~CheckpointWriter() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    leaves_ = true;
    changed_.notify_all();
  }
  thread_.join();
  std::error_code ignored;
  if (isLeader()) fs::remove_all(temporary(), ignored);  // of a training that has failed
}

std::string CheckpointWriter::temporary() const {
  return fs::path(to_.folder) /
         fmt::format(".{}{}-{}.tmp", kCheckpointPrefix, progress_.step, nonce_);
}

std::string CheckpointWriter::target() const { return checkpointAt(to_.folder, progress_.step); }

Status CheckpointWriter::open() {
  const int ranks = state_.plan.mesh.size();
  folders_.assign(static_cast<std::size_t>(ranks), 0);
  std::uint64_t nonce = (std::uint64_t{std::random_device{}()} << 32) | std::random_device{}();
  LOCKSTEP_TRY(state_.groups.broadcast(&nonce, sizeof nonce));
  nonce_ = fmt::format("{:016x}", nonce);
  if (ranks > 1) LOCKSTEP_TRY(findFolders());
  // Old files are removed before any rank writes.
  LOCKSTEP_ASSIGN(const Together cleaned,
                  doTogether(state_.groups, state_.rank, "clearing " + to_.folder,
                             [&](std::int64_t&) -> Status {
                               std::error_code ignored;
                               if (ranks > 1)
                                 fs::remove(markOf(to_.folder, nonce_, state_.rank), ignored);
                               if (!isLeader()) return {};
                               removeLeftovers(to_.folder);
                               return openFolder().status();
                             }));
  LOCKSTEP_TRY(cleaned.result());
  listParts();
  return withMemoryFor("the checkpoint writer", 0, [&] {
    startJob(Phase::kAllocating);
    thread_ = helperThread("checkpoint", [this] { work(); });
    return Status();
  });
}

Result<bool> CheckpointWriter::openFolder() const {
  if (to_.isMade) {
    std::error_code gone;
    return fs::is_directory(to_.folder, gone);
  }
  LOCKSTEP_TRY(makeFolder(to_.folder));
  return true;
}

Status CheckpointWriter::findFolders() {
  const auto here = [&](const std::function<Status()>& work) -> Status {
    LOCKSTEP_ASSIGN(const Together done,
                    doTogether(state_.groups, state_.rank, "looking at " + to_.folder,
                               [&](std::int64_t&) { return work(); }));
    return done.result();
  };
  std::int64_t first = -1;  // where this rank has no folder
  LOCKSTEP_TRY(here([&]() -> Status {
    LOCKSTEP_ASSIGN(const bool isThere, openFolder());
    if (!isThere) return {};
    first = state_.rank;
    return writeFileAtomically(markOf(to_.folder, nonce_, state_.rank), "", kMode);
  }));
  LOCKSTEP_TRY(here([&]() -> Status {
    std::error_code none;
    for (int other = state_.rank - 1; other >= 0 && first >= 0; --other)
      if (fs::exists(markOf(to_.folder, nonce_, other), none)) first = other;
    return {};
  }));
  const auto merge = [&](const std::vector<std::string>& texts) {
    std::string out = texts.front();  // a word for each rank; -1 where it is not known yet
    const auto words = [&](std::string& text) {
      return reinterpret_cast<std::int64_t*>(text.data());
    };
    for (std::string text : texts)
      for (std::size_t r = 0; r < folders_.size(); ++r)
        words(out)[r] = std::max(words(out)[r], words(text)[r]);
    return out;
  };
  std::vector<std::int64_t> known(folders_.size(), -1);
  known[static_cast<std::size_t>(state_.rank)] = first;
  LOCKSTEP_ASSIGN(const std::string all, joinedTexts({reinterpret_cast<const char*>(known.data()),
                                                      known.size() * sizeof known[0]},
                                                     state_.groups, merge));
  std::memcpy(known.data(), all.data(), all.size());
  const auto found = std::find_if(known.begin(), known.end(), [](auto rank) { return rank >= 0; });
  const std::int64_t others = found == known.end() ? 0 : *found;
  std::transform(known.begin(), known.end(), folders_.begin(),
                 [&](std::int64_t rank) { return static_cast<int>(rank < 0 ? others : rank); });
  return {};
}

void CheckpointWriter::listParts() {
  pieces_ = plan::piecesWrittenBy(state_.plan, state_.rank, folders_);
  for (const HeldPiece& held : pieces_) {
    parts_.push_back({held.piece.stored(),
                      isMirror() ? static_cast<std::size_t>(held.offset) : bytes_,
                      {held.number, stateTensorText(*held.slot, held.member->name)}});
    bytes_ += static_cast<std::size_t>(held.piece.bytes());
  }
}

std::span<std::byte> CheckpointWriter::snapshotOf(const Part& part) const {
  std::byte* const all = isMirror() ? state_.arena.data() : snapshot_.get();
  return {all + part.offset, static_cast<std::size_t>(part.tensor.bytes())};
}

Result<bool> CheckpointWriter::hasNews() {
  std::unique_lock lock(mutex_);
  if (phase_ == Phase::kIdle) return false;
  if (!isDone_ && monotonicNow() - lastProgress_ > diskWait().limit.count()) {
    const Error error = diskStuck("writing " + to_.folder, state_.rank);
    lock.unlock();
    if (diskWait().onStuck) diskWait().onStuck(error);
    return error;
  }
  return isDone_ && monotonicNow() >= nextNews_;
}

Nanoseconds CheckpointWriter::pauseAfter(Nanoseconds elapsed, bool isAsynchronous) {
  return std::min(elapsed, isAsynchronous ? kLongestPauseOfAsynchronous : kLongestPause);
}

Result<bool> CheckpointWriter::attend(bool asks) {
  Standing mine;
  Status own;
  mine.asks = asks ? 1 : 0;
  {
    const std::lock_guard lock(mutex_);
    mine.pending = phase_ != Phase::kIdle && !isDone_ ? 1 : 0;
    if (mine.pending == 0) own = result_;
  }
  if (!own.ok()) mine.fail(state_.rank, own.error());
  LOCKSTEP_ASSIGN(const Standing all, standingOf(mine, state_.groups));
  if (all.pending != 0) {
    const Nanoseconds now = monotonicNow();
    if (mine.pending == 0)
      nextNews_ = now + pauseAfter(now - phaseBegin_, state_.plan.isAsynchronous());
    return all.asks != 0;
  }
  Status failed = own.ok() ? all.result() : own;
  if (!failed.ok() && phase_ != Phase::kCleaning) {
    failed_ = std::move(failed);
    failed_.error().step = progress_.step;
    // For the rank that failed, where it ends the training.
    if (!own.ok())
      failed_.error().next = own.code() == Code::kResourceExhausted
                                 ? message("free space on the disk of {}, then resume", to_.folder)
                                 : message("check that {} can be written, then resume", to_.folder);
    start(Phase::kCleaning);
  } else if (phase_ == Phase::kWriting) {
    start(Phase::kPublishing);
  } else if (phase_ == Phase::kPublishing) {
    written_ = Written{progress_.step, target()};
    failed_ = {};
    start(Phase::kCleaning);  // now nobody needs the ones before it any more
  } else {
    phase_ = Phase::kIdle;
  }
  return all.asks != 0;
}

void CheckpointWriter::start(Phase phase) {
  phase_ = phase;
  phaseBegin_ = nextNews_ = monotonicNow();
  if (state_.plan.isAsynchronous()) nextNews_ += kFirstPauseOfAsynchronous;
  startJob(phase);
}

void CheckpointWriter::startJob(Phase job) {
  const std::lock_guard lock(mutex_);
  job_ = job;
  isDone_ = false;
  result_ = {};
  lastProgress_ = monotonicNow();
  changed_.notify_all();
}

Result<std::optional<Found>> CheckpointWriter::takeSnapshot(const Progress& progress) {
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return isDone_; });  // the first time, for the allocation
  }
  if (!isMirror() && !snapshot_) return outOfMemory(kSnapshot, static_cast<std::int64_t>(bytes_));
  std::optional<Found> first;
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    const Part& part = parts_[i];
    const std::span<std::byte> from(state_.arena.data() + pieces_[i].offset,
                                    static_cast<std::size_t>(pieces_[i].piece.bytes()));
    if (!isFiniteCopy(from, snapshotOf(part), part.tensor.dtype) &&
        (!first || part.name.order < first->tensor.order))
      first = Found{progress.step, part.name};
  }
  progress_ = progress;
  LOCKSTEP_TRY(state_.groups.broadcast(&progress_, sizeof progress_));
  return first;
}

void CheckpointWriter::begin() {
  published_ = false;
  start(Phase::kWriting);
}

Result<bool> CheckpointWriter::awaitPhase() {
  const Phase before = phase_;
  {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(1), [this] { return isDone_; });
  }
  LOCKSTEP_TRY(hasNews().status());
  LOCKSTEP_TRY(attend(false).status());
  return phase_ != before;
}

Status CheckpointWriter::finish() {
  while (isBusy()) LOCKSTEP_TRY(awaitPhase().status());
  return {};
}

Status CheckpointWriter::finishSoon() {
  bool moves = true;
  while (isBusy() && moves) {
    LOCKSTEP_ASSIGN(moves, awaitPhase());
  }
  return {};
}

void CheckpointWriter::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return job_ != Phase::kIdle || leaves_; });
    if (leaves_) return;
    const Phase job = job_;
    lock.unlock();
    Status status = withMemoryFor("the checkpoint writer", 0, [&] { return run(job); });
    if (!status.ok()) {
      status.error().step = progress_.step;
      status.error().next = {};  // see attend()
    }
    lock.lock();
    result_ = std::move(status);
    job_ = Phase::kIdle;
    isDone_ = true;
    changed_.notify_all();
  }
}

Status CheckpointWriter::run(Phase job) {
  switch (job) {
    case Phase::kIdle:
      return {};
    case Phase::kAllocating: {
      if (isMirror()) return {};
      auto memory = allocateAligned(static_cast<std::int64_t>(bytes_), kSnapshot);
      if (memory.ok()) snapshot_ = std::move(*memory);
      return {};  // takeSnapshot() returns the error
    }
    case Phase::kWriting:
      return write();
    case Phase::kPublishing:
      return publish();
    case Phase::kCleaning:
      return clean();
  }
  return {};
}

Status CheckpointWriter::write() {
  const fs::path folder = temporary();
  // Not the folders above it: where a disk is not mounted any more, another one would be filled.
  std::error_code error;
  fs::create_directory(folder, error);
  LOCKSTEP_TRY(createdFolder(folder, error));
  if (parts_.empty()) return {};
  std::vector<TensorInfo> tensors;
  for (const Part& part : parts_) tensors.push_back(part.tensor);
  const auto bytes = [this](std::size_t index) -> Result<std::span<const std::byte>> {
    const std::lock_guard lock(mutex_);
    if (leaves_) return makeError(Code::kAborted, "the training ended while it was written");
    lastProgress_ = monotonicNow();
    return std::span<const std::byte>(snapshotOf(parts_[index]));
  };
  Metadata metadata{{"format", "lockstep-checkpoint-2"}, {"id", nonce_}};
  const bool isWhole = folders_.size() == 1;
  if (isWhole) {
    metadata = metadataOf(state_.plan, progress_);
    metadata["format"] = "lockstep-checkpoint-1";
  }
  return writeTensors(folder / (isWhole ? std::string(kStateFile) : shardFile(state_.rank)),
                      tensors, metadata, bytes, Checksums::kCrc32c, kMode);
}

Status CheckpointWriter::publish() {
  if (!isLeader()) return {};
  const fs::path root = to_.folder, folder = temporary();
  if (folders_.size() > 1) {
    Manifest manifest;
    manifest.id = nonce_;
    manifest.metadata = metadataOf(state_.plan, progress_);
    for (int rank = 0; rank < std::ssize(folders_); ++rank)
      for (const HeldPiece& held : plan::piecesWrittenBy(state_.plan, rank, folders_)) {
        manifest.tensors.emplace(held.piece.tensor.name, held.piece.tensor);
        manifest.contents[shardFile(rank)].push_back(held.piece);
      }
    LOCKSTEP_TRY(writeFileAtomically(folder / kManifestFile, textOf(manifest), kMode));
  }
  LOCKSTEP_TRY(syncFolder(folder));
  LOCKSTEP_TRY(publishCheckpoint(folder, target()));
  published_ = true;
  return syncFolder(root);
}

// Removes what was given up, and all but the newest. Each is renamed first, so that no reader finds
// a partial checkpoint.
Status CheckpointWriter::clean() {
  if (!isLeader()) return {};
  const fs::path root = to_.folder, newest = target();
  std::error_code error;
  const auto remove = [&](const fs::path& checkpoint) {
    const fs::path trash = root / ("." + checkpoint.filename().string() + ".old");
    fs::remove_all(trash, error);
    fs::rename(checkpoint, trash, error);
    if (!error) fs::remove_all(trash, error);
  };
  if (!failed_.ok()) {  // older ones are what is left to resume from
    fs::remove_all(temporary(), error);
    if (published_) remove(newest);
    return {};
  }
  const auto all = checkpointsIn(root);
  for (std::size_t i = 0; i + static_cast<std::size_t>(std::max(to_.keep, 1)) < all.size(); ++i) {
    // Checkpoints of later steps are damaged if the run resumed from an earlier one.
    if (all[i].second == newest) continue;
    if (to_.copied != nullptr && (all[i].first == *to_.copied ||
                                  (all[i].first > *to_.copied && i + kUncopied >= all.size())))
      continue;
    remove(all[i].second);
  }
  return {};
}

}  // namespace lockstep::runtime
