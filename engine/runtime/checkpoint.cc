#include "engine/runtime/checkpoint.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "engine/base/hash.h"
#include "engine/base/list_folder.h"
#include "engine/base/memory.h"
#include "engine/base/threads.h"
#include "engine/runtime/finite.h"
#include "engine/runtime/heartbeat.h"
#include "engine/runtime/safetensors.h"

namespace lockstep::runtime {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view kPrefix = "step-";
constexpr std::string_view kStateFile = "state.safetensors";
constexpr std::string_view kParameters = "params", kStatistics = "stats", kResidual = "residual";

// "adam.m.3" → "adam.m": the group's number is a matter of the plan, not of the state.
std::string_view slotKind(std::string_view slot) { return slot.substr(0, slot.rfind('.')); }

using Member = plan::StateSlot::Member;

// A tensor of a checkpoint: a member of a slot, or the members of several that have its rows, in
// order.
struct Place {
  const plan::StateSlot* slot = nullptr;
  std::vector<std::pair<const plan::StateSlot*, const Member*>> parts;
  const Member& member() const { return *parts.front().second; }
};
// In the order of the plan's state, of slots of these kinds.
template <typename Wanted>
std::vector<Place> placesOf(const plan::Plan& plan, Wanted wanted) {
  std::vector<Place> places;
  std::map<std::string, std::size_t> known;  // of what is in parts
  for (const plan::StateSlot& slot : plan.state)
    for (const Member& member : slot.members) {
      if (!wanted(slotKind(slot.name))) continue;
      std::size_t at = places.size();
      if (member.rows > 0)
        at =
            known.emplace(fmt::format("{}/{}", slotKind(slot.name), member.name), at).first->second;
      if (at == places.size()) places.push_back({&slot, {}});
      places[at].parts.emplace_back(&slot, &member);
    }
  for (Place& place : places)
    std::sort(place.parts.begin(), place.parts.end(),
              [](const auto& a, const auto& b) { return a.second->firstRow < b.second->firstRow; });
  return places;
}

// Whole logical tensors out of and into what the ranks hold. All ranks ask for the same ones in the
// same order.
class WholeTensors {
 public:
  explicit WholeTensors(const RankState& state) : state_(state) {}

  // Valid until the next call.
  Result<std::span<const std::byte>> of(const Place& place) {
    if (place.parts.size() == 1) return of(*place.slot, place.member());
    joined_.clear();
    for (const auto& [slot, member] : place.parts) {
      LOCKSTEP_ASSIGN(const auto rows, of(*slot, *member));
      if (state_.rank == 0) joined_.insert(joined_.end(), rows.begin(), rows.end());
    }
    return std::span<const std::byte>(joined_);
  }

 private:
  Result<std::span<const std::byte>> of(const plan::StateSlot& slot, const Member& member) {
    const cluster::Mesh& mesh = state_.plan.mesh;
    comm::Communicator* const stages = state_.groups.along(mesh.messageAxis());
    if (stages == nullptr) return onStage(slot, member);
    if (state_.plan.stageOf(state_.rank) == slot.stage) {
      LOCKSTEP_ASSIGN(const auto tensor, onStage(slot, member));
      if (tensor.data() != whole_.data()) whole_.assign(tensor.begin(), tensor.end());
    } else {
      whole_.resize(static_cast<std::size_t>(count(member)) * sizeOf(slot.type.dtype));
    }
    LOCKSTEP_TRY(
        stages->broadcast(whole_.data(), std::ssize(whole_), mesh.messageCoordinate(slot.stage)));
    return std::span<const std::byte>(whole_);
  }

 public:
  // Rank 0 gives the tensors of a slot by `read`; every rank's state receives its part.
  template <typename Read>
  Status fill(const plan::StateSlot& slot, Read read) {
    const std::size_t size = sizeOf(slot.type.dtype);
    group_.assign(static_cast<std::size_t>(state_.plan.groupCount(slot)) * size, std::byte{0});
    gathered_ = nullptr;
    for (const Member& member : slot.members) {
      whole_.resize(static_cast<std::size_t>(count(member)) * size);
      if (state_.rank == 0) {
        std::span<const std::byte> from = read(member);
        if (member.rows > 0)
          from = from.subspan(from.size() / static_cast<std::size_t>(member.shape[0]) *
                                  static_cast<std::size_t>(member.firstRow),
                              whole_.size());
        std::memcpy(whole_.data(), from.data(), from.size());
      }
      LOCKSTEP_TRY(state_.groups.broadcast(whole_.data(), std::ssize(whole_)));
      const std::span<std::byte> mine = within(group_, slot, member);
      if (member.axis.empty()) {
        std::memcpy(mine.data(), whole_.data(), whole_.size());
        continue;
      }
      const int part = state_.plan.mesh.coordinate(state_.rank, member.axis);
      forRows(slot, member, part, [&](std::size_t inWhole, std::size_t inPart, std::size_t bytes) {
        std::memcpy(mine.data() + inPart, whole_.data() + inWhole, bytes);
      });
    }
    if (state_.plan.stageOf(state_.rank) != slot.stage) return {};
    const auto bytes = static_cast<std::size_t>(slot.type.bytes());
    const auto part = static_cast<std::size_t>(state_.plan.mesh.coordinate(state_.rank, slot.axis));
    std::memcpy(state_.arena.data() + slot.offset, group_.data() + part * bytes, bytes);
    return {};
  }

 private:
  // As the ranks of the slot's stage find it.
  Result<std::span<const std::byte>> onStage(const plan::StateSlot& slot, const Member& member) {
    LOCKSTEP_ASSIGN(const std::span<std::byte> group, wholeGroup(slot));
    const std::span<std::byte> mine = within(group, slot, member);
    if (member.axis.empty()) return std::span<const std::byte>(mine);
    const int parts = state_.plan.mesh.axisSize(member.axis);
    parts_.resize(mine.size() * static_cast<std::size_t>(parts));
    LOCKSTEP_TRY(state_.groups.along(member.axis)
                     ->allGather(mine.data(), parts_.data(),
                                 equalCuts(parts, state_.plan.memberCount(member)),
                                 slot.type.dtype));
    whole_.resize(parts_.size());
    for (int part = 0; part < parts; ++part)
      forRows(slot, member, part, [&](std::size_t inWhole, std::size_t inPart, std::size_t bytes) {
        std::memcpy(whole_.data() + inWhole,
                    parts_.data() + static_cast<std::size_t>(part) * mine.size() + inPart, bytes);
      });
    return std::span<const std::byte>(whole_);
  }

  // As this rank's axes other than the slot's have it.
  Result<std::span<std::byte>> wholeGroup(const plan::StateSlot& slot) {
    std::byte* mine = state_.arena.data() + slot.offset;
    const std::int64_t bytes = slot.type.bytes();
    if (slot.axis.empty()) return std::span(mine, static_cast<std::size_t>(bytes));
    if (gathered_ != &slot) {
      gathered_ = nullptr;
      const int parts = state_.plan.mesh.axisSize(slot.axis);
      group_.resize(static_cast<std::size_t>(bytes * parts));
      LOCKSTEP_TRY(state_.groups.along(slot.axis)->allGather(
          mine, group_.data(), equalCuts(parts, slot.type.count()), slot.type.dtype));
      gathered_ = &slot;
    }
    return std::span(group_);
  }
  static std::vector<std::int64_t> equalCuts(int parts, std::int64_t count) {
    std::vector<std::int64_t> cuts;
    for (int part = 0; part <= parts; ++part) cuts.push_back(part * count);
    return cuts;
  }
  std::span<std::byte> within(std::span<std::byte> group, const plan::StateSlot& slot,
                              const Member& member) const {
    const std::size_t size = sizeOf(slot.type.dtype);
    return group.subspan(static_cast<std::size_t>(member.element) * size,
                         static_cast<std::size_t>(state_.plan.memberCount(member)) * size);
  }
  // Calls copy(offset in the whole tensor, offset in the part, bytes) for the runs of one part of a
  // tensor that is divided along a dimension.
  template <typename Copy>
  void forRows(const plan::StateSlot& slot, const Member& member, int part, Copy copy) const {
    const std::size_t size = sizeOf(slot.type.dtype);
    const auto parts = static_cast<std::size_t>(state_.plan.mesh.axisSize(member.axis));
    std::size_t outer = 1, row = size;
    for (std::size_t d = 0; d < member.shape.size(); ++d)
      (static_cast<int>(d) < member.dim ? outer : row) *= static_cast<std::size_t>(member.shape[d]);
    const std::size_t run = row / parts;
    for (std::size_t i = 0; i < outer; ++i)
      copy(i * row + static_cast<std::size_t>(part) * run, i * run, run);
  }

  // Elements of the member on all ranks of its axis.
  std::int64_t count(const Member& member) const {
    return state_.plan.memberCount(member) * state_.plan.mesh.axisSize(member.axis);
  }

  const RankState& state_;
  const plan::StateSlot* gathered_ = nullptr;
  std::vector<std::byte> group_, parts_, whole_, joined_;
};

std::string tensorName(const plan::StateSlot& slot, const Member& member) {
  return fmt::format("{}/{}", slotKind(slot.name), member.name);
}

void syncFolder(const fs::path& folder) {
  const int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  fsync(fd);
  close(fd);
}

std::optional<std::int64_t> stepOf(const fs::path& folder) {
  const std::string name = folder.filename();
  if (!name.starts_with(kPrefix)) return std::nullopt;
  std::int64_t step = 0;
  const char* end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + kPrefix.size(), end, step);
  if (error != std::errc() || stop != end) return std::nullopt;
  return step;
}

std::vector<std::pair<std::int64_t, fs::path>> checkpointsIn(const fs::path& folder) {
  std::vector<std::pair<std::int64_t, fs::path>> out;
  for (const auto& entry : listFolder(folder))
    if (const auto step = stepOf(entry)) out.emplace_back(*step, entry);
  std::sort(out.begin(), out.end());
  return out;
}

// A number from the metadata; kDataLoss where it is missing or no number.
template <typename T>
Status metadataNumber(const TensorFile& file, const std::string& key, T& out) {
  const auto found = file.metadata.find(key);
  if (found != file.metadata.end()) {
    const std::string& text = found->second;
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), out);
    if (error == std::errc() && stop == text.data() + text.size()) return {};
  }
  return makeError(Code::kDataLoss, "the checkpoint's metadata has no valid \"{}\"", key);
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

Result<std::string> writeCheckpoint(const std::string& folder, int keep, const RankState& state,
                                    const Progress& progress) {
  std::vector<TensorInfo> tensors;
  const std::vector<Place> places = placesOf(state.plan, [](std::string_view) { return true; });
  for (const Place& place : places)
    tensors.push_back(
        {tensorName(*place.slot, place.member()), place.slot->type.dtype, place.member().shape});
  const fs::path root(folder);
  const fs::path target = root / fmt::format("{}{:09}", kPrefix, progress.step);
  const auto write = [&](const TensorBytes& bytes) -> Status {
    const fs::path temporary = root / fmt::format(".{}{}.tmp", kPrefix, progress.step);
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
                     : "see that the node's work folder can be written, then resume";
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

namespace {

// A checkpoint's file, known to have what the plan needs.
Result<TensorFile> tensorsFor(const plan::Plan& plan, const std::string& checkpoint) {
  const std::string path = stateFile(checkpoint);
  LOCKSTEP_ASSIGN(TensorFile file, readTensors(path));
  const auto unfit = [](Error error) {
    error.next = "resume with the spec the checkpoint was made with";
    return error;
  };
  for (const plan::StateSlot& slot : plan.state)
    for (const Member& member : slot.members) {
      // of other ranks they will do: see residuals()
      if (slot.role == plan::StateRole::kResidual) continue;
      const std::string name = tensorName(slot, member);
      const auto found = file.entries.find(name);
      if (found == file.entries.end())
        return unfit(invalidArgument("{} has no tensor {}, which this model and optimizer need",
                                     path, name));
      if (found->second.shape != member.shape || found->second.dtype != slot.type.dtype)
        return unfit(invalidArgument("{}: tensor {} is {}[{}], and the plan needs {}[{}]", path,
                                     name, dtypeName(found->second.dtype),
                                     shapeText(found->second.shape), dtypeName(slot.type.dtype),
                                     shapeText(member.shape)));
    }
  return file;
}

struct Loaded {
  std::string folder;
  TensorFile file;
  Progress progress;
};

// The newest of a folder of checkpoints that is whole and fits the plan.
Result<Loaded> loadNewest(const std::string& checkpoint, const plan::Plan& plan,
                          const ReadOptions& options) {
  LOCKSTEP_ASSIGN(const std::string newest, newestCheckpoint(checkpoint));
  std::vector<std::string> folders{newest};
  if (newest != checkpoint) {
    folders.clear();
    for (const auto& [step, folder] : checkpointsIn(checkpoint))
      folders.insert(folders.begin(), folder.string());
  }
  std::vector<Error> unusable;
  for (const std::string& folder : folders) {
    auto file = tensorsFor(plan, folder);
    if (!file.ok()) {
      // It may be whole: one before it would undo steps for nothing.
      if (file.error().code == Code::kResourceExhausted ||
          file.error().code == Code::kPermissionDenied)
        return file.error();
      unusable.push_back(file.error());
      continue;
    }
    for (std::size_t i = 0; options.warn && i < unusable.size(); ++i) {
      Error warning = makeError(
          Code::kDataLoss, "the checkpoint {} cannot be used: the training goes on from {}",
          fs::path(folders[i]).filename().string(), fs::path(folder).filename().string());
      const Error& bad = unusable[i];
      warning.why = bad.why.empty() ? bad.what : message("{}: {}", bad.what, bad.why);
      options.warn(warning);
    }
    if (!file->verified && options.warn) {
      Error warning =
          makeError(Code::kDataLoss,
                    "the checkpoint {} has no checksums: damage to it would not be seen", folder);
      warning.why = "an earlier version wrote it";
      options.warn(warning);
    }
    return Loaded{folder, std::move(file).value(), {}};
  }
  Error error = unusable.front();
  if (error.code == Code::kDataLoss || error.code == Code::kNotFound)
    error.next =
        unusable.size() > 1
            ? message("none of the {} checkpoints there can be used: begin anew", unusable.size())
            : "resume from another checkpoint, or begin anew";
  return error;
}

Status checkFinite(const plan::Plan& plan, const Loaded& loaded) {
  for (const plan::StateSlot& slot : plan.state)
    for (const Member& member : slot.members) {
      const auto found = loaded.file.entries.find(tensorName(slot, member));
      if (found == loaded.file.entries.end()) continue;
      const std::int64_t at = firstNonFinite(loaded.file.bytes(found->second), found->second.dtype);
      if (at < 0) continue;
      Error error =
          invalidArgument("the checkpoint {} is of a training that diverged", loaded.folder);
      error.why = message("the {} is not finite, from element {} on",
                          stateTensorText(slot, member.name), at);
      error.next =
          "resume from an earlier checkpoint, with a lower training.optimizer.learning_rate; "
          "training.on_nonfinite=continue takes it all the same";
      return error;
    }
  return {};
}

// What a run of this seed and batch goes on from.
Result<Loaded> load(const std::string& checkpoint, const plan::Plan& plan,
                    const ReadOptions& options) {
  LOCKSTEP_ASSIGN(Loaded loaded, loadNewest(checkpoint, plan, options));
  const TensorFile& file = loaded.file;
  if (options.nonFinite == NonFinite::kRefused) LOCKSTEP_TRY(checkFinite(plan, loaded));
  // Steps count batches: with another batch they would point elsewhere in the data.
  std::int64_t batch = 0;
  LOCKSTEP_TRY(metadataNumber(file, "batch", batch));
  if (batch != plan.globalBatch) {
    Error error = invalidArgument("the checkpoint was made with batch {}, this run has {}", batch,
                                  plan.globalBatch);
    error.next = message("resume with training.batch={}", batch);
    return error;
  }
  Progress& progress = loaded.progress;
  LOCKSTEP_TRY(metadataNumber(file, "step", progress.step));
  if (progress.step < 0)
    return makeError(Code::kDataLoss, "the checkpoint's metadata has no valid \"step\"");
  LOCKSTEP_TRY(metadataNumber(file, "loss_sum", progress.lossSum));
  LOCKSTEP_TRY(metadataNumber(file, "weight_sum", progress.weightSum));
  LOCKSTEP_TRY(metadataNumber(file, "seed", progress.seed));
  if (progress.seed != options.seed)
    return invalidArgument("the checkpoint was made with seed {}, this run has {}", progress.seed,
                           options.seed);
  return loaded;
}

}  // namespace

namespace {

template <typename T>
void addParts(std::span<const std::byte> parts, std::span<std::byte> sum) {
  for (std::size_t at = 0; at < parts.size(); at += sizeof(T)) {
    T one{}, all{};  // a file's tensors are not aligned
    std::memcpy(&one, parts.data() + at, sizeof(T));
    std::memcpy(&all, sum.data() + at % sum.size(), sizeof(T));
    all += one;
    std::memcpy(sum.data() + at % sum.size(), &all, sizeof(T));
  }
}

// What each rank has not sent yet is its own: of as many ranks it is taken as it is, of others the
// first rank takes it all. Where there is none, none is left.
std::span<const std::byte> residuals(const TensorFile& file, const plan::StateSlot& slot,
                                     const Member& member, std::vector<std::byte>& merged) {
  const auto found = file.entries.find(tensorName(slot, member));
  const bool known = found != file.entries.end() && found->second.dtype == slot.type.dtype;
  if (known && found->second.shape == member.shape) return file.bytes(found->second);
  merged.assign(static_cast<std::size_t>(elementCount(member.shape)) * sizeOf(slot.type.dtype),
                std::byte{0});
  const auto each = static_cast<std::size_t>(slot.type.bytes());
  if (!known || !member.axis.empty() || file.bytes(found->second).size() % each != 0) return merged;
  const auto add = slot.type.dtype == DType::kF64 ? addParts<double> : addParts<float>;
  add(file.bytes(found->second), std::span(merged).first(each));
  return merged;
}

}  // namespace

Result<Progress> readCheckpoint(const std::string& checkpoint, const ReadOptions& options,
                                const RankState& state) {
  std::array<double, 4> header{};  // read well, step, Σ w·loss, Σ w
  Result<Loaded> loaded = makeError(Code::kAborted, "rank 0 could not read the checkpoint");
  LOCKSTEP_TRY(Heartbeat(state.groups, state.rank, "reading " + checkpoint).doAtRankZero([&] {
    loaded = load(checkpoint, state.plan, options);
    return Status();  // the others learn of an error by the header
  }));
  if (state.rank == 0 && loaded.ok())
    header = {1, static_cast<double>(loaded->progress.step), loaded->progress.lossSum,
              loaded->progress.weightSum};
  LOCKSTEP_TRY(state.groups.broadcast(header.data(), sizeof header));
  if (header[0] != 1) return loaded.error();
  WholeTensors whole(state);
  std::vector<std::byte> merged;
  for (const plan::StateSlot& slot : state.plan.state)
    LOCKSTEP_TRY(whole.fill(slot, [&](const Member& member) {
      if (slot.role == plan::StateRole::kResidual)
        return residuals(loaded->file, slot, member, merged);
      return loaded->file.bytes(loaded->file.entries.at(tensorName(slot, member)));
    }));
  return Progress{static_cast<std::int64_t>(header[1]), header[2], header[3], options.seed};
}

Status readModel(const std::string& checkpoint, const RankState& state) {
  LOCKSTEP_ASSIGN(const TensorFile file, tensorsFor(state.plan, checkpoint));
  WholeTensors whole(state);
  for (const plan::StateSlot& slot : state.plan.state)
    LOCKSTEP_TRY(whole.fill(slot, [&](const Member& member) {
      return file.bytes(file.entries.at(tensorName(slot, member)));
    }));
  return {};
}

namespace {

// As memory gives it: a SHA-256 of all would be a third of what a worker with large tables takes to
// begin. Words go round the lanes, and a lane's step is one-to-one in what the lane has and in the
// word, so that no change of one word is lost.
void addDigest(Sha256& hash, std::span<const std::byte> bytes) {
  constexpr std::size_t kLanes = 8;
  std::array<std::uint64_t, kLanes> lanes{}, words;
  std::size_t at = 0;
  for (; at + sizeof words <= bytes.size(); at += sizeof words) {
    std::memcpy(words.data(), bytes.data() + at, sizeof words);
    for (std::size_t i = 0; i < kLanes; ++i) {
      lanes[i] = (lanes[i] ^ words[i]) * 0x9e3779b97f4a7c15u;
      lanes[i] ^= lanes[i] >> 32;
    }
  }
  hash.update(std::as_bytes(std::span(lanes)));
  hash.update(bytes.subspan(at));
}

}  // namespace

std::string replicaHash(const plan::Plan& plan, int rank, StateArena& arena) {
  Sha256 hash;
  bool any = false;
  for (const plan::StateSlot& slot : plan.state) {
    if ((slot.role != plan::StateRole::kParameters && slot.role != plan::StateRole::kStatistics) ||
        slot.stage != plan.stageOf(rank) || !slot.axis.empty())
      continue;
    hash.update(slot.name);
    // What lies between members, and behind the last, is nobody's.
    for (const Member& member : slot.members) {
      const std::size_t size = sizeOf(slot.type.dtype);
      addDigest(hash, std::span(arena.data() + slot.offset +
                                    static_cast<std::size_t>(member.element) * size,
                                static_cast<std::size_t>(plan.memberCount(member)) * size));
    }
    any = true;
  }
  return any ? hash.hex() : std::string();
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
