#include "engine/runtime/checkpoint.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <optional>
#include <thread>

#include "engine/base/hash.h"
#include "engine/base/list_folder.h"
#include "engine/base/memory.h"
#include "engine/base/threads.h"
#include "engine/runtime/checkpoint_files.h"
#include "engine/runtime/heartbeat.h"
#include "engine/runtime/safetensors.h"
#include "engine/runtime/whole_tensors.h"

namespace lockstep::runtime {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view kParameters = "params", kStatistics = "stats";

void syncFolder(const fs::path& folder) {
  const int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  fsync(fd);
  close(fd);
}

std::optional<std::int64_t> stepOf(const fs::path& folder) {
  const std::string name = folder.filename();
  if (!name.starts_with(kCheckpointPrefix)) return std::nullopt;
  std::int64_t step = 0;
  const char* end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + kCheckpointPrefix.size(), end, step);
  if (error != std::errc() || stop != end) return std::nullopt;
  return step;
}

// Renamed away before they are deleted, so that no reader meets half a checkpoint.
void removeAllBut(const fs::path& root, int keep, const fs::path& newest) {
  std::error_code error;
  const auto all = checkpointsIn(root);
  for (std::size_t i = 0; i + static_cast<std::size_t>(std::max(keep, 1)) < all.size(); ++i) {
    if (all[i].second == newest) continue;  // resumed from one before those that are damaged
    const fs::path trash = root / ("." + all[i].second.filename().string() + ".old");
    fs::remove_all(trash, error);
    fs::rename(all[i].second, trash, error);
    if (!error) fs::remove_all(trash, error);
  }
}

using Write = std::function<Status(const TensorBytes& bytes)>;

// Rank 0's file, written on a thread of its own from tensors that are given one after another.
class Handover {
 public:
  explicit Handover(const Write& write) {
    thread_ = helperThread("checkpoint", [this, &write] {
      Status status = withMemoryFor("what rank 0 writes", 0, [&] {
        return write([this](std::size_t index) { return take(index); });
      });
      const std::lock_guard lock(mutex_);
      result_ = std::move(status);
      ended_ = true;
      changed_.notify_all();
    });
  }
  // Tensors that have not been given by then never will be.
  ~Handover() {
    {
      const std::lock_guard lock(mutex_);
      abandoned_ = true;
      changed_.notify_all();
    }
    thread_.join();
  }
  // Returns when the tensor has been written, or nothing more is.
  Status give(std::span<const std::byte> tensor, Heartbeat& heartbeat) {
    std::unique_lock lock(mutex_);
    tensor_ = tensor;
    ++given_;
    changed_.notify_all();
    return heartbeat.await(lock, changed_, [this] { return asked_ > given_ || ended_; });
  }
  Status awaitEnd(Heartbeat& heartbeat) {
    std::unique_lock lock(mutex_);
    return heartbeat.await(lock, changed_, [this] { return ended_; });
  }
  const Status& result() const { return result_; }  // after the end

 private:
  Result<std::span<const std::byte>> take(std::size_t index) {
    std::unique_lock lock(mutex_);
    asked_ = index + 1;
    changed_.notify_all();
    changed_.wait(lock, [this] { return given_ >= asked_ || abandoned_; });
    if (given_ < asked_) return makeError(Code::kAborted, "the ranks could not gather the state");
    return tensor_;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::span<const std::byte> tensor_;
  std::size_t asked_ = 0, given_ = 0;
  bool ended_ = false, abandoned_ = false;
  Status result_;
  std::thread thread_;
};

// Whether other ranks take part in making a whole tensor of it.
bool isGathered(const RankState& state, const Place& place) {
  return state.groups.along(state.plan.mesh.messageAxis()) != nullptr ||
         std::any_of(place.parts.begin(), place.parts.end(), [](const auto& part) {
           return !part.first->axis.empty() || !part.second->axis.empty();
         });
}

// All ranks together make one tensor after another whole. Rank 0 gives each to `sink` and writes it
// by `write`, where not null; the others wait as long as that takes. `written` is what became of
// it: the others' files are not touched.
Status gather(const RankState& state, const std::vector<Place>& places, const std::string& file,
              const Write& write,
              const std::function<void(std::size_t, std::span<const std::byte>)>& sink,
              Status& written) {
  WholeTensors whole(state);
  Heartbeat heartbeat(state.groups, state.rank, "writing " + file);
  std::optional<Handover> handover;
  if (state.rank == 0 && write) handover.emplace(write);
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (isGathered(state, places[i])) LOCKSTEP_TRY(heartbeat.meet());
    LOCKSTEP_ASSIGN(const std::span<const std::byte> tensor, whole.of(places[i]));
    if (state.rank == 0 && sink) sink(i, tensor);
    if (handover) LOCKSTEP_TRY(handover->give(tensor, heartbeat));
  }
  if (handover) LOCKSTEP_TRY(handover->awaitEnd(heartbeat));
  LOCKSTEP_TRY(heartbeat.meet());
  if (handover) written = handover->result();
  return {};
}

}  // namespace

std::vector<std::pair<std::int64_t, fs::path>> checkpointsIn(const fs::path& folder) {
  std::vector<std::pair<std::int64_t, fs::path>> out;
  for (const auto& entry : listFolder(folder))
    if (const auto step = stepOf(entry)) out.emplace_back(*step, entry);
  std::sort(out.begin(), out.end());
  return out;
}

Result<std::string> writeCheckpoint(const std::string& folder, int keep, const RankState& state,
                                    const Progress& progress) {
  std::vector<TensorInfo> tensors;
  const std::vector<Place> places = placesOf(state.plan, [](std::string_view) { return true; });
  for (const Place& place : places)
    tensors.push_back(
        {tensorName(*place.slot, place.member()), place.slot->type.dtype, place.member().shape});
  const fs::path root(folder);
  const fs::path target = root / fmt::format("{}{:09}", kCheckpointPrefix, progress.step);
  const auto write = [&](const TensorBytes& bytes) -> Status {
    const fs::path temporary = root / fmt::format(".{}{}.tmp", kCheckpointPrefix, progress.step);
    std::error_code error;
    fs::create_directories(root, error);
    if (error)
      return systemError(error.value(), message("cannot make the checkpoint folder {}", folder));
    fs::remove_all(temporary, error);
    fs::create_directory(temporary, error);
    if (error) return systemError(error.value(), message("cannot make {}", temporary.string()));
    Status written = writeTensors(temporary / kStateFile, tensors,
                                  {{"format", "lockstep-checkpoint-1"},
                                   {"model", state.plan.name},
                                   {"batch", fmt::format("{}", state.plan.globalBatch)},
                                   {"step", fmt::format("{}", progress.step)},
                                   {"loss_sum", fmt::format("{}", progress.lossSum)},
                                   {"weight_sum", fmt::format("{}", progress.weightSum)},
                                   {"seed", fmt::format("{}", progress.seed)}},
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
    removeAllBut(root, keep, target);
    return {};
  };
  Status written;
  LOCKSTEP_TRY(gather(state, places, target.string(), write, {}, written));
  if (!written.ok()) {
    Error cause = written.error();
    cause.next = cause.code == Code::kResourceExhausted
                     ? "free space where the node keeps its runs, then resume"
                     : "check that the node's work folder can be written, then resume";
    return cause;
  }
  return state.rank == 0 ? target.string() : std::string();
}

std::string stateFile(const std::string& checkpoint) { return fs::path(checkpoint) / kStateFile; }

Result<std::string> newestCheckpoint(const std::string& folder) {
  std::error_code none;
  if (fs::exists(fs::path(folder) / kStateFile, none)) return folder;
  const auto all = checkpointsIn(folder);
  if (!fs::exists(folder, none)) {
    Error error = makeError(Code::kNotFound, "there is no folder {}", folder);
    error.why = "the run that kept its checkpoints there was removed, or made none";
    return error;
  }
  if (all.empty()) return makeError(Code::kNotFound, "there is no checkpoint in {}", folder);
  return all.back().second.string();
}

Result<std::string> exportModel(const std::string& path, const RankState& state,
                                const TensorSink& sink) {
  std::vector<Place> places = placesOf(
      state.plan, [](std::string_view kind) { return kind == kParameters || kind == kStatistics; });
  std::sort(places.begin(), places.end(),
            [](const Place& a, const Place& b) { return a.member().name < b.member().name; });
  std::vector<TensorInfo> tensors;
  for (const Place& place : places)
    tensors.push_back({place.member().name, place.slot->type.dtype, place.member().shape});
  Sha256 hash;
  const auto note = [&](std::size_t index, std::span<const std::byte> data) {
    const TensorInfo& tensor = tensors[index];
    hash.update(
        fmt::format("{} {}[{}]\n", tensor.name, dtypeName(tensor.dtype), shapeText(tensor.shape)));
    hash.update(data);
    if (sink) sink(tensor, data);
  };
  Write write;
  if (!path.empty())
    write = [&](const TensorBytes& bytes) {
      return writeTensors(path, tensors,
                          {{"format", "lockstep"},
                           {"model", state.plan.name},
                           {"layout", std::string(kWeightLayout)}},
                          bytes);
    };
  Status written;
  LOCKSTEP_TRY(gather(state, places, path, write, note, written));
  LOCKSTEP_TRY(written);
  return state.rank == 0 ? hash.hex() : std::string();
}

}  // namespace lockstep::runtime
