#include "engine/weights/files.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "engine/base/file.h"
#include "engine/base/memory.h"

namespace lockstep::weights {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kKinds[] = {"params/", "stats/"};
constexpr std::int64_t kPieceBytes = 4 << 20;  // that are read at once
constexpr std::size_t kListed = 5;             // of names in an error

Message listed(const std::vector<std::string>& names) {
  const std::size_t shown = std::min(names.size(), kListed);
  const std::string text = fmt::format(
      "{}", fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown), ", "));
  if (shown == names.size()) return text;
  return message("{} and {} more", text, names.size() - shown);
}

Message joined(const Message& text, const Message& more) {
  return text.empty() ? more : message("{}; {}", text, more);
}

std::string typeText(DType dtype, const Shape& shape) {
  return fmt::format("{}[{}]", dtypeName(dtype), shapeText(shape));
}

// The weight's name of a tensor of a file, whose tensors are given by name. In a checkpoint names
// have kinds; in an exported model they are the weights' own, and a layer's may have a '/'.
template <typename Tensors>
std::string nameAmong(const Tensors& tensors, const std::string& name) {
  const auto first = tensors.lower_bound(std::string(kKinds[0]));
  const bool haveKinds = first != tensors.end() && first->first.starts_with(kKinds[0]);
  return haveKinds ? weightName(name) : name;
}

}  // namespace

std::string weightName(const std::string& tensor) {
  for (const std::string_view kind : kKinds)
    if (tensor.starts_with(kind)) return tensor.substr(kind.size());
  return tensor.find('/') == std::string::npos ? tensor : std::string();
}

std::map<std::string, TensorInfo> weightsOf(const plan::Plan& plan) {
  std::map<std::string, TensorInfo> out;
  for (const plan::StateSlot& slot : plan.state) {
    if (slot.role != plan::StateRole::kParameters && slot.role != plan::StateRole::kStatistics)
      continue;
    for (const auto& member : slot.members) {
      const std::string name = plan::tensorName(slot, member);
      out[name] = {name, slot.type.dtype, member.shape};
    }
  }
  return out;
}

std::vector<std::string> filesOfWeights(const Manifest& manifest) {
  std::map<std::string, std::pair<std::vector<Piece>, std::vector<std::string>>> stored;
  for (const auto& [file, pieces] : manifest.contents)
    for (const Piece& piece : pieces) {
      if (weightName(piece.tensor.name).empty()) continue;
      auto& [all, files] = stored[piece.tensor.name];
      all.push_back(piece);
      files.push_back(file);
    }
  std::set<std::string> out;
  for (const auto& [tensor, parts] : stored) {
    const auto& [pieces, files] = parts;
    const TensorInfo& info = pieces.front().tensor;
    const auto cover = plan::coverOf(pieces, {info, 0, 0, 1, 0, elementCount(info.shape)});
    for (std::size_t i = 0; cover && i < cover->size(); ++i) out.insert(files[(*cover)[i]]);
  }
  return {out.begin(), out.end()};
}

Message Mismatch::text() const {
  Message out;
  if (!missing.empty()) out = message("missing are {}", listed(missing));
  if (!leftOver.empty()) out = joined(out, message("left over are {}", listed(leftOver)));
  for (std::size_t i = 0; i < std::min(wrong.size(), kListed); ++i) out = joined(out, wrong[i]);
  if (wrong.size() > kListed)
    out = joined(out, message("{} more have another shape or type", wrong.size() - kListed));
  return out;
}

Status Mismatch::check(const std::string& source, bool partial) const {
  if (fits() || (partial && wrong.empty() && shared > 0)) return {};
  Error error = invalidArgument("the weights in {} do not fit the model", source);
  error.why = text();
  if (!wrong.empty())
    error.next = "correct the model, or rename the layers that are to start from random weights";
  else if (shared == 0)
    error.next = "correct the model or model.init_from.names";
  else
    error.next =
        "correct the model or model.init_from.names, or set model.init_from.partial to start from "
        "what fits";
  return error;
}

std::string WeightsFile::find(const std::string& prefix, const std::string& name) const {
  if (file_->entries().contains(prefix + name)) return prefix + name;
  return file_->entries().contains(name) ? name : std::string();
}

Result<WeightsFile> WeightsFile::open(const std::string& path, const Names& names,
                                      const std::map<std::string, TensorInfo>& wanted,
                                      bool partial) {
  LOCKSTEP_ASSIGN(TensorReader reader, TensorReader::open(path));
  WeightsFile out;
  out.file_ = std::make_shared<const TensorReader>(std::move(reader));
  out.match(names, wanted);
  LOCKSTEP_TRY(out.mismatch_.check(path, partial));
  LOCKSTEP_TRY(out.checkCopies(names));
  return out;
}

void WeightsFile::match(const Names& names, const std::map<std::string, TensorInfo>& wanted) {
  std::set<std::string> used;
  for (const auto& [copy, of] : names.copies) used.insert(find(names.prefix, copy));
  for (const auto& [tensor, info] : wanted) {
    Stored stored = names.of(weightName(tensor));
    // One of our own checkpoints has the names with their kinds.
    const std::string inFile = names.stored.empty() && file_->entries().contains(tensor)
                                   ? tensor
                                   : find(names.prefix, stored.name);
    if (inFile.empty()) {
      mismatch_.missing.push_back(stored.name);
      continue;
    }
    used.insert(inFile);
    take(info, inFile, stored);
  }
  for (const auto& [name, entry] : file_->entries())
    if (!used.contains(name) && !names.isNoWeight(name) &&
        (!names.stored.empty() || !nameAmong(file_->entries(), name).empty()))
      mismatch_.leftOver.push_back(name);
}

void WeightsFile::take(const TensorInfo& tensor, const std::string& name, const Stored& stored) {
  const TensorReader::Entry& entry = file_->entries().at(name);
  const Shape expected = stored.shapeOf(tensor.shape);
  if (entry.shape != expected || !isConvertible(entry.dtype)) {
    mismatch_.wrong.push_back(message("{} is {} there, the model has {}", name,
                                      typeText(entry.dtype, entry.shape),
                                      typeText(tensor.dtype, expected)));
    return;
  }
  ++mismatch_.shared;
  manifest_.tensors[tensor.name] = tensor;
  stored_[tensor.name] = stored;
  stored_[tensor.name].name = name;
  // Whole rows; a transposed tensor, or one whose checksum is verified, is read at once.
  const std::int64_t count = elementCount(tensor.shape);
  const std::int64_t row =
      tensor.shape.empty() ? 1 : std::max<std::int64_t>(1, tensor.shape.back());
  std::int64_t most = std::max<std::int64_t>(1, kPieceBytes / (row * 8)) * row;
  if (file_->hasChecksums() || stored.layout == Layout::kTransposed)
    most = std::max<std::int64_t>(1, count);
  std::vector<Piece>& pieces = manifest_.contents[file_->path()];
  for (std::int64_t begin = 0; begin < count; begin += most)
    pieces.push_back({tensor, 0, 0, 1, begin, std::min(begin + most, count)});
}

Status WeightsFile::checkCopies(const Names& names) const {
  for (const auto& [copy, of] : names.copies) {
    const std::string here = find(names.prefix, copy), there = find(names.prefix, of);
    if (here.empty() || there.empty()) continue;
    const auto &a = file_->entries().at(here), &b = file_->entries().at(there);
    bool same = a.dtype == b.dtype && a.shape == b.shape;
    std::vector<std::byte> one, other;
    for (std::size_t at = 0; same && at < a.size; at += one.size()) {
      one.resize(std::min(a.size - at, static_cast<std::size_t>(kPieceBytes)));
      other.resize(one.size());
      LOCKSTEP_TRY(file_->readRange(here, at, one));
      LOCKSTEP_TRY(file_->readRange(there, at, other));
      same = one == other;
    }
    if (same) continue;
    Error error = invalidArgument("the weights in {} do not fit the model", file_->path());
    error.why = message("{} differs from {}, and the model has one for both", here, there);
    error.next = "leave tied out of the model's last layer, and set its no_bias";
    return error;
  }
  return {};
}

Result<std::vector<std::byte>> WeightsFile::read(const Piece& piece) const {
  const Stored& stored = stored_.at(piece.tensor.name);
  const TensorReader::Entry& entry = file_->entries().at(stored.name);
  std::vector<std::byte> in(static_cast<std::size_t>(piece.end - piece.begin) *
                            sizeOf(entry.dtype));
  if (piece.isWhole())
    LOCKSTEP_TRY(file_->read(stored.name, in));
  else
    LOCKSTEP_TRY(file_->readRange(stored.name,
                                  static_cast<std::size_t>(piece.begin) * sizeOf(entry.dtype), in));
  Shape shape = piece.tensor.shape;
  if (!piece.isWhole()) shape = {(piece.end - piece.begin) / shape.back(), shape.back()};
  std::vector<std::byte> out(static_cast<std::size_t>(piece.bytes()));
  fromFile(stored, shape, entry.dtype, in, piece.tensor.dtype, out);
  return out;
}

Status ModelWeights::open(const std::string& file, const std::string& path) {
  LOCKSTEP_ASSIGN(TensorReader reader, TensorReader::open(path));
  const auto id = reader.metadata().find("id");
  if (!manifest_.id.empty() && (id == reader.metadata().end() || id->second != manifest_.id))
    return makeError(Code::kDataLoss, "the file {} is not of the checkpoint", path);
  files_.emplace(file, std::move(reader));
  return {};
}

Result<ModelWeights> ModelWeights::open(const std::string& path) {
  ModelWeights out;
  std::error_code none;
  out.path_ = path;
  if (!fs::is_directory(path, none)) {
    LOCKSTEP_TRY(out.open(path, path));
    if (out.files_.begin()->second.metadata().contains("id")) {
      Error error = invalidArgument("the file {} is a part of a checkpoint", path);
      error.next = "name the folder that it is in";
      return error;
    }
    out.manifest_ = manifestOf(out.files_.begin()->second);
    out.files_.emplace(kStateFile, std::move(out.files_.extract(path).mapped()));
  } else {
    LOCKSTEP_ASSIGN(out.path_, newestCheckpoint(path));
    const fs::path folder = out.path_, manifest = folder / kManifestFile;
    if (fs::exists(manifest, none)) {
      LOCKSTEP_ASSIGN(const std::string text, readFile(manifest));
      LOCKSTEP_ASSIGN(out.manifest_, parseManifest(text, manifest));
      for (const auto& [file, pieces] : out.manifest_.contents)
        if (fs::exists(folder / file, none)) LOCKSTEP_TRY(out.open(file, folder / file));
    } else {
      LOCKSTEP_TRY(out.open(std::string(kStateFile), folder / kStateFile));
      out.manifest_ = manifestOf(out.files_.begin()->second);
    }
  }
  for (const auto& [tensor, info] : out.manifest_.tensors)
    if (const std::string name = nameAmong(out.manifest_.tensors, tensor);
        !name.empty() &&
        !out.tensors_.emplace(name, TensorInfo{name, info.dtype, info.shape}).second)
      return makeError(Code::kDataLoss, "{} has two tensors that are {} of the model", out.path_,
                       name);
  for (const auto& [file, pieces] : out.manifest_.contents)
    for (const Piece& piece : pieces)
      if (out.files_.contains(file))
        out.pieces_[nameAmong(out.manifest_.tensors, piece.tensor.name)].emplace_back(file, piece);
  return out;
}

Status ModelWeights::read(const std::string& name, std::span<std::byte> out) const {
  std::vector<Piece> pieces;
  const auto found = pieces_.find(name);
  if (found != pieces_.end())
    for (const auto& [file, piece] : found->second) pieces.push_back(piece);
  const TensorInfo& tensor = tensors_.at(name);
  Piece whole{tensor, 0, 0, 1, 0, elementCount(tensor.shape)};
  const auto cover = plan::coverOf(pieces, whole);
  if (!cover) {
    Error error = makeError(Code::kDataLoss, "{} has not all parts of {}", path_, name);
    error.next = "copy the checkpoint's files of all nodes into one folder";
    return error;
  }
  for (const std::size_t i : *cover) {
    const auto& [file, piece] = found->second[i];
    const TensorReader& reader = files_.at(file);
    const TensorInfo stored = piece.stored();
    const auto entry = reader.entries().find(stored.name);
    if (entry == reader.entries().end() || entry->second.shape != stored.shape ||
        entry->second.dtype != stored.dtype)
      return makeError(Code::kDataLoss,
                       "the file {} does not have tensor {}, which the manifest lists",
                       reader.path(), stored.name);
    std::vector<std::byte> bytes(entry->second.size);
    LOCKSTEP_TRY(reader.read(stored.name, bytes));
    plan::copyCommon(piece, bytes.data(), whole, out.data());
  }
  return {};
}

Status exportWeights(const ModelWeights& model, const Names& names, std::optional<DType> type,
                     const std::string& to, const lockstep::Progress& progress) {
  Mismatch mismatch;
  for (const auto& [parameter, stored] : names.stored)
    if (!model.tensors().contains(parameter)) mismatch.missing.push_back(parameter);
  std::vector<TensorInfo> tensors;
  std::vector<std::string> parameters;
  for (const auto& [name, info] : model.tensors()) {
    if (!names.stored.empty() && !names.stored.contains(name)) mismatch.leftOver.push_back(name);
    const Stored stored = names.of(name);
    if (!stored.canHold(info.shape))
      mismatch.wrong.push_back(message("{} is [{}] there", name, shapeText(info.shape)));
    const bool prefixed = stored.name != "lm_head.weight";
    tensors.push_back({(prefixed ? names.prefix : "") + stored.name,
                       type && isConvertible(info.dtype) ? *type : info.dtype,
                       stored.shapeOf(info.shape)});
    parameters.push_back(name);
  }
  if (!mismatch.fits()) {
    Error error = invalidArgument("the weights in {} do not have these names", model.path());
    error.why = mismatch.text();
    return error;
  }
  std::vector<std::byte> ours, theirs;
  const auto bytes = [&](std::size_t index) -> Result<std::span<const std::byte>> {
    if (progress && !progress(static_cast<std::int64_t>(index), std::ssize(tensors)))
      return makeError(Code::kCancelled, "writing {} was cancelled", to);
    const TensorInfo& info = model.tensors().at(parameters[index]);
    const std::int64_t size = info.bytes() + tensors[index].bytes();
    return withMemoryFor(
        message("tensor {}", info.name), size, [&]() -> Result<std::span<const std::byte>> {
          ours.resize(static_cast<std::size_t>(info.bytes()));
          LOCKSTEP_TRY(model.read(info.name, ours));
          theirs.resize(static_cast<std::size_t>(tensors[index].bytes()));
          if (const std::int64_t lost = toFile(names.of(info.name), info.shape, info.dtype, ours,
                                               tensors[index].dtype, theirs);
              lost > 0) {
            Error error = invalidArgument("{} of {} values of {} are too large for {}", lost,
                                          elementCount(info.shape), info.name,
                                          dtypeName(tensors[index].dtype));
            error.next = "choose a type of a wider range: bf16 or f32";
            return error;
          }
          return std::span<const std::byte>(theirs);
        });
  };
  Metadata metadata{{"format", "lockstep"}, {"layout", std::string(kWeightLayout)}};
  if (!names.stored.empty()) metadata = {{"format", "pt"}};  // which Transformers asks for
  return writeTensors(to, tensors, metadata, bytes);
}

}  // namespace lockstep::weights
