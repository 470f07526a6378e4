// Reading of checkpoints: the newest that is whole, by ranks of any number.
#include <array>
#include <charconv>
#include <cstring>
#include <filesystem>

#include "engine/runtime/checkpoint.h"
#include "engine/runtime/checkpoint_files.h"
#include "engine/runtime/finite.h"
#include "engine/runtime/heartbeat.h"
#include "engine/runtime/safetensors.h"
#include "engine/runtime/whole_tensors.h"

namespace lockstep::runtime {
namespace {

namespace fs = std::filesystem;

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
            ? message("none of the {} checkpoints there can be used: start over", unusable.size())
            : "resume from another checkpoint, or start over";
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

// Loads the checkpoint that a run with this seed and batch resumes from.
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

}  // namespace lockstep::runtime
