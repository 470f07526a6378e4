#include "engine/runtime/checkpoint.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>

#include "engine/base/hash.h"
#include "engine/runtime/safetensors.h"

namespace lockstep::runtime {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view kPrefix = "step-";
constexpr std::string_view kStateFile = "state.safetensors";
constexpr std::string_view kParameters = "params";

// "adam.m.3" → "adam.m": the group's number is a matter of the plan, not of the state.
std::string_view slotKind(std::string_view slot) { return slot.substr(0, slot.rfind('.')); }

// Every logical tensor of the state with where it lies.
template <typename Visit>
void forEachMember(const plan::Plan& plan, StateArena& state, Visit visit) {
  for (const plan::StateSlot& slot : plan.state) {
    const std::size_t size = sizeOf(slot.type.dtype);
    for (const plan::StateSlot::Member& member : slot.members) {
      std::byte* data =
          state.data() + slot.offset + member.element * static_cast<std::int64_t>(size);
      const std::span bytes(data, static_cast<std::size_t>(elementCount(member.shape)) * size);
      visit(slot, member, bytes);
    }
  }
}

std::vector<TensorRef> parameters(const plan::Plan& plan, StateArena& state) {
  std::vector<TensorRef> out;
  forEachMember(plan, state, [&](const auto& slot, const auto& member, std::span<std::byte> bytes) {
    if (slotKind(slot.name) == kParameters)
      out.push_back({member.name, slot.type.dtype, member.shape, bytes});
  });
  std::sort(out.begin(), out.end(),
            [](const TensorRef& a, const TensorRef& b) { return a.name < b.name; });
  return out;
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
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (const auto step = stepOf(entry.path())) out.emplace_back(*step, entry.path());
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

}  // namespace

Result<std::string> writeCheckpoint(const std::string& folder, int keep, const plan::Plan& plan,
                                    StateArena& state, const Progress& progress) {
  const fs::path root(folder);
  const fs::path target = root / fmt::format("{}{:09}", kPrefix, progress.step);
  const fs::path temporary = root / fmt::format(".{}{}.tmp", kPrefix, progress.step);
  std::error_code error;
  const auto failed = [](Error cause) {
    cause.next = cause.code == Code::kResourceExhausted
                     ? "free space where the node keeps its runs, then resume"
                     : "see that the node's work folder can be written, then resume";
    return cause;
  };
  fs::create_directories(root, error);
  if (error) return failed(systemError(error.value(), "cannot make the checkpoint folder " + folder));
  fs::remove_all(temporary, error);
  fs::create_directory(temporary, error);
  if (error) return failed(systemError(error.value(), "cannot make " + temporary.string()));

  std::vector<TensorRef> tensors;
  forEachMember(plan, state, [&](const auto& slot, const auto& member, std::span<std::byte> bytes) {
    tensors.push_back({fmt::format("{}/{}", slotKind(slot.name), member.name), slot.type.dtype,
                       member.shape, bytes});
  });
  Status written = writeTensors(temporary / kStateFile, tensors,
                                {{"format", "lockstep-checkpoint-1"},
                                 {"model", plan.name},
                                 {"batch", fmt::format("{}", plan.globalBatch)},
                                 {"step", fmt::format("{}", progress.step)},
                                 {"loss_sum", fmt::format("{}", progress.lossSum)},
                                 {"weight_sum", fmt::format("{}", progress.weightSum)},
                                 {"seed", fmt::format("{}", progress.seed)}});
  if (!written.ok()) {
    fs::remove_all(temporary, error);
    return failed(written.error());
  }
  syncFolder(temporary);
  if (fs::exists(target)) fs::remove_all(target, error);
  fs::rename(temporary, target, error);
  if (error) return failed(systemError(error.value(), "cannot rename to " + target.string()));
  syncFolder(root);

  // Renamed away before they are deleted, so that no reader meets half a checkpoint.
  auto all = checkpointsIn(root);
  for (std::size_t i = 0; i + static_cast<std::size_t>(std::max(keep, 1)) < all.size(); ++i) {
    const fs::path trash = root / ("." + all[i].second.filename().string() + ".old");
    fs::remove_all(trash, error);
    fs::rename(all[i].second, trash, error);
    if (!error) fs::remove_all(trash, error);
  }
  return target.string();
}

Result<Progress> readCheckpoint(const std::string& checkpoint, const plan::Plan& plan,
                                StateArena& state) {
  LOCKSTEP_ASSIGN(const std::string folder, newestCheckpoint(checkpoint));
  const std::string path = fs::path(folder) / kStateFile;
  LOCKSTEP_ASSIGN(const TensorFile file, readTensors(path));
  Status matched;
  forEachMember(plan, state, [&](const auto& slot, const auto& member, std::span<std::byte> bytes) {
    const std::string name = fmt::format("{}/{}", slotKind(slot.name), member.name);
    const auto found = file.entries.find(name);
    if (!matched.ok()) return;
    if (found == file.entries.end()) {
      matched = invalidArgument("{} has no tensor {}, which this model and optimizer need", path, name);
    } else if (found->second.shape != member.shape || found->second.dtype != slot.type.dtype) {
      matched = invalidArgument("{}: tensor {} is {}[{}], and the plan needs {}[{}]", path, name,
                                dtypeName(found->second.dtype), shapeText(found->second.shape),
                                dtypeName(slot.type.dtype), shapeText(member.shape));
    } else {
      const auto from = file.bytes(found->second);
      std::memcpy(bytes.data(), from.data(), from.size());
    }
  });
  if (!matched.ok()) {
    matched.error().next = "resume with the spec the checkpoint was made with";
    return matched.error();
  }
  // Steps count batches: with another batch they would point elsewhere in the data.
  std::int64_t batch = 0;
  LOCKSTEP_TRY(metadataNumber(file, "batch", batch));
  if (batch != plan.globalBatch) {
    Error error = invalidArgument("the checkpoint was made with batch {}, this run has {}", batch,
                                  plan.globalBatch);
    error.next = fmt::format("resume with training.batch={}", batch);
    return error;
  }
  Progress progress;
  LOCKSTEP_TRY(metadataNumber(file, "step", progress.step));
  if (progress.step < 0)
    return makeError(Code::kDataLoss, "the checkpoint's metadata has no valid \"step\"");
  LOCKSTEP_TRY(metadataNumber(file, "loss_sum", progress.lossSum));
  LOCKSTEP_TRY(metadataNumber(file, "weight_sum", progress.weightSum));
  LOCKSTEP_TRY(metadataNumber(file, "seed", progress.seed));
  return progress;
}

Result<std::string> newestCheckpoint(const std::string& folder) {
  if (fs::exists(fs::path(folder) / kStateFile)) return folder;
  const auto all = checkpointsIn(folder);
  if (all.empty()) return makeError(Code::kNotFound, "there is no checkpoint in {}", folder);
  return all.back().second.string();
}

Status writeModel(const std::string& path, const plan::Plan& plan, StateArena& state) {
  return writeTensors(path, parameters(plan, state), {{"format", "lockstep"}, {"model", plan.name}});
}

std::string weightsSha256(const plan::Plan& plan, StateArena& state) {
  Sha256 hash;
  for (const TensorRef& tensor : parameters(plan, state)) {
    hash.update(fmt::format("{} {}[{}]\n", tensor.name, dtypeName(tensor.dtype),
                            shapeText(tensor.shape)));
    hash.update(tensor.bytes);
  }
  return hash.hex();
}

}  // namespace lockstep::runtime
