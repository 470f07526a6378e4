#include "engine/weights/checkpoint_files.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "engine/base/crc32c.h"
#include "engine/base/list_folder.h"

namespace lockstep::weights {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::string_view kFormat = "lockstep-checkpoint-2", kSumLine = "\ncrc32c ";
constexpr int kMostParts = 1 << 16;  // of a tensor

std::optional<std::int64_t> stepOf(const fs::path& folder) {
  const std::string name = folder.filename();
  if (!name.starts_with(kCheckpointPrefix)) return std::nullopt;
  std::int64_t step = 0;
  const char* end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + kCheckpointPrefix.size(), end, step);
  if (error != std::errc() || stop != end) return std::nullopt;
  return step;
}

std::string sumOf(std::string_view text) {
  return fmt::format("{:08x}", crc32c(std::as_bytes(std::span(text))));
}

Error corrupt(const std::string& path, Message why) {
  Error error = makeError(Code::kDataLoss, "the file {} is damaged", path);
  error.why = std::move(why);
  return error;
}

template <typename T>
Result<T> parsed(const Metadata& metadata, const std::string& key) {
  const auto found = metadata.find(key);
  if (found != metadata.end()) {
    T out{};
    const std::string& text = found->second;
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), out);
    if (error == std::errc() && stop == text.data() + text.size()) return out;
  }
  return makeError(Code::kDataLoss, "the checkpoint's metadata has no valid \"{}\"", key);
}

std::int64_t countOf(const json& value) {
  if (!value.is_number_integer() || value < 0 || value > std::numeric_limits<std::int64_t>::max())
    throw std::out_of_range(
        fmt::format("{} is not a count", value.is_primitive() ? value.dump() : value.type_name()));
  return value.get<std::int64_t>();
}

int smallCountOf(const json& value) {
  const std::int64_t count = countOf(value);
  if (count > kMostParts) throw std::out_of_range(fmt::format("{} parts are too many", count));
  return static_cast<int>(count);
}

Piece pieceOf(const json& row, const Manifest& manifest) {
  Piece piece;
  piece.tensor = manifest.tensors.at(row.at(0).get<std::string>());
  piece.dim = smallCountOf(row.at(1));
  piece.part = smallCountOf(row.at(2));
  piece.parts = smallCountOf(row.at(3));
  piece.begin = countOf(row.at(4));
  piece.end = countOf(row.at(5));
  const Shape& shape = piece.tensor.shape;
  const bool isCut = piece.parts > 1;
  bool fits = piece.parts >= 1 && piece.parts <= kMostParts && piece.part >= 0 &&
              piece.part < piece.parts && piece.begin >= 0 && piece.begin <= piece.end &&
              piece.dim >= 0 &&
              (!isCut || (piece.dim < std::ssize(shape) &&
                          shape[static_cast<std::size_t>(piece.dim)] % piece.parts == 0));
  fits = fits && piece.end <= elementCount(shape) / piece.parts;
  if (!fits) throw std::out_of_range("a piece exceeds its tensor");
  return piece;
}

Manifest read(const json& root) {
  Manifest out;
  out.id = root.at("id").get<std::string>();
  out.metadata = root.at("metadata").get<Metadata>();
  for (const auto& [name, value] : root.at("tensors").items()) {
    const auto dtype = dtypeFromName(value.at("dtype").get<std::string>());
    if (!dtype) throw std::out_of_range("it lists a tensor of an unknown type");
    TensorInfo& tensor = out.tensors[name] = {name, *dtype, {}};
    std::int64_t count = 1;
    for (const json& extent : value.at("shape")) {
      const std::int64_t n = countOf(extent);
      if (n > 0 && count > (std::int64_t{1} << 50) / n)
        throw std::out_of_range("it lists a tensor with an invalid shape");
      count *= std::max<std::int64_t>(1, n);
      tensor.shape.push_back(n);
    }
  }
  std::map<std::string, std::pair<int, int>> cuts;  // by tensor
  for (const auto& [file, rows] : root.at("files").items()) {
    if (fs::path(file).filename() != file)
      throw std::out_of_range("it names a file outside the checkpoint folder");
    for (const json& row : rows) {
      const Piece& piece = out.contents[file].emplace_back(pieceOf(row, out));
      const std::pair cut(piece.dim, piece.parts);
      if (cuts.emplace(piece.tensor.name, cut).first->second != cut)
        throw std::out_of_range("it lists a tensor that is sharded in two ways");
    }
  }
  return out;
}

}  // namespace

std::string shardFile(int rank) { return fmt::format("shard-{:05}.safetensors", rank); }

bool isDataFile(std::string_view name) {
  if (name == kStateFile || name == kManifestFile) return true;
  int rank = 0;
  constexpr std::string_view kPrefix = "shard-";
  if (!name.starts_with(kPrefix)) return false;
  const auto read = std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), rank);
  return read.ec == std::errc() && rank >= 0 && name == shardFile(rank);
}

fs::path checkpointAt(const fs::path& folder, std::int64_t step) {
  return folder / fmt::format("{}{:09}", kCheckpointPrefix, step);
}

std::vector<std::string> filesOnlyOf(const Manifest& manifest, const std::set<int>& ranks) {
  std::set<std::string> own;
  for (const int rank : ranks) own.insert(shardFile(rank));
  std::map<std::string, std::vector<Piece>> elsewhere;  // by tensor
  for (const auto& [file, pieces] : manifest.contents)
    if (!own.contains(file))
      for (const Piece& piece : pieces) elsewhere[piece.tensor.name].push_back(piece);
  std::vector<std::string> out;
  for (const std::string& file : own) {
    const auto contents = manifest.contents.find(file);
    if (contents == manifest.contents.end()) continue;
    if (!std::all_of(contents->second.begin(), contents->second.end(), [&](const Piece& piece) {
          return plan::coverOf(elsewhere[piece.tensor.name], piece).has_value();
        }))
      out.push_back(file);
  }
  return out;
}

std::vector<std::pair<std::int64_t, fs::path>> checkpointsIn(const fs::path& folder) {
  std::vector<std::pair<std::int64_t, fs::path>> out;
  for (const auto& entry : listFolder(folder))
    if (const auto step = stepOf(entry)) out.emplace_back(*step, entry);
  std::sort(out.begin(), out.end());
  return out;
}

bool isCheckpoint(const fs::path& folder) {
  std::error_code none;
  return fs::exists(folder / kManifestFile, none) || fs::exists(folder / kStateFile, none);
}

Result<std::string> newestCheckpoint(const std::string& folder) {
  std::error_code none;
  if (isCheckpoint(folder)) return folder;
  const auto all = checkpointsIn(folder);
  if (!fs::exists(folder, none)) {
    Error error = makeError(Code::kNotFound, "there is no folder {}", folder);
    error.why =
        "the run that kept its checkpoints there was removed or made none, or a volume is not "
        "mounted";
    return error;
  }
  if (all.empty()) return makeError(Code::kNotFound, "there is no checkpoint in {}", folder);
  return all.back().second.string();
}

Status publishCheckpoint(const fs::path& temporary, const fs::path& checkpoint) {
  const fs::path earlier =
      checkpoint.parent_path() / ("." + checkpoint.filename().string() + ".old");
  std::error_code error, ignored;
  fs::rename(temporary, checkpoint, error);
  if (error == std::errc::directory_not_empty || error == std::errc::file_exists) {
    fs::remove_all(earlier, ignored);
    fs::rename(checkpoint, earlier, error);
    if (!error) fs::rename(temporary, checkpoint, error);
    if (error)
      fs::rename(earlier, checkpoint, ignored);
    else
      fs::remove_all(earlier, ignored);
  }
  if (error) return systemError(error.value(), message("cannot rename to {}", checkpoint.string()));
  return {};
}

Metadata metadataOf(const plan::Plan& plan, const Progress& progress) {
  return {{"model", plan.name},
          {"batch", fmt::format("{}", plan.globalBatch)},
          {"step", fmt::format("{}", progress.step)},
          {"loss_sum", fmt::format("{}", progress.lossSum)},
          {"weight_sum", fmt::format("{}", progress.weightSum)},
          {"seed", fmt::format("{}", progress.seed)}};
}

Result<std::int64_t> integerOf(const Metadata& metadata, const std::string& key) {
  return parsed<std::int64_t>(metadata, key);
}

Result<double> numberOf(const Metadata& metadata, const std::string& key) {
  return parsed<double>(metadata, key);
}

Result<Progress> progressOf(const Metadata& metadata) {
  Progress out;
  LOCKSTEP_ASSIGN(out.step, integerOf(metadata, "step"));
  if (out.step < 0)
    return makeError(Code::kDataLoss, "the checkpoint's metadata has no valid \"step\"");
  LOCKSTEP_ASSIGN(out.lossSum, numberOf(metadata, "loss_sum"));
  LOCKSTEP_ASSIGN(out.weightSum, numberOf(metadata, "weight_sum"));
  LOCKSTEP_ASSIGN(out.seed, parsed<std::uint64_t>(metadata, "seed"));
  return out;
}

std::int64_t Manifest::step() const {
  const auto found = integerOf(metadata, "step");
  return found.ok() ? *found : -1;
}

std::string textOf(const Manifest& manifest) {
  json root{{"format", kFormat}, {"id", manifest.id}, {"metadata", manifest.metadata}};
  json& tensors = root["tensors"] = json::object();
  for (const auto& [name, tensor] : manifest.tensors)
    tensors[name] = {{"dtype", dtypeName(tensor.dtype)}, {"shape", tensor.shape}};
  json& files = root["files"] = json::object();
  for (const auto& [file, pieces] : manifest.contents) {
    json& rows = files[file] = json::array();
    for (const Piece& piece : pieces)
      rows.push_back(
          {piece.tensor.name, piece.dim, piece.part, piece.parts, piece.begin, piece.end});
  }
  std::string text = root.dump(-1, ' ', false, json::error_handler_t::replace);
  text += kSumLine;
  return text + sumOf(text) + "\n";
}

Result<Manifest> parseManifest(std::string_view text, const std::string& path) {
  const std::size_t line = text.rfind(kSumLine);
  if (line == std::string_view::npos) return corrupt(path, "its checksum is missing");
  const std::size_t at = line + kSumLine.size();
  if (text.substr(at) != sumOf(text.substr(0, at)) + "\n")
    return corrupt(path, "its checksum does not match");
  const json root = json::parse(text.substr(0, line), nullptr, false);
  try {
    if (root.at("format") != kFormat)
      return corrupt(path, message("its format is not {}", kFormat));
    return read(root);
  } catch (const std::exception& error) {  // of the JSON library, and read()'s own
    return corrupt(path, message("{}", error.what()));
  }
}

Manifest manifestOf(const TensorReader& whole) {
  Manifest out;
  out.metadata = whole.metadata();
  for (const auto& [name, entry] : whole.entries()) {
    const TensorInfo& tensor = out.tensors[name] = {name, entry.dtype, entry.shape};
    Piece piece{tensor, 0, 0, 1, 0, elementCount(tensor.shape)};
    out.contents[std::string(kStateFile)].push_back(std::move(piece));
  }
  return out;
}

}  // namespace lockstep::weights
