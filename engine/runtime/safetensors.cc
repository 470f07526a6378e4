#include "engine/runtime/safetensors.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "engine/base/crc32c.h"
#include "engine/base/file.h"
#include "engine/base/memory.h"

namespace lockstep::runtime {
namespace {

using nlohmann::json;

constexpr std::uint64_t kMostHeader = 100 << 20;  // same limit as other readers
constexpr const char* kChecksums = "checksums";
constexpr const char* kCrc32c = "crc32c";
constexpr const char* kChecksumTensor = "checksums.crc32c";
using Crc = std::uint32_t;

constexpr std::pair<DType, std::string_view> kNames[] = {
    {DType::kF32, "F32"}, {DType::kF64, "F64"}, {DType::kBf16, "BF16"}, {DType::kF16, "F16"},
    {DType::kI32, "I32"}, {DType::kI64, "I64"}, {DType::kU8, "U8"},     {DType::kI32, "U32"}};

std::string_view fileName(DType dtype) {
  for (const auto& [type, name] : kNames)
    if (type == dtype) return name;
  return "F32";
}

Error corrupt(const std::string& path, Message why) {
  Error error = makeError(Code::kDataLoss, "the file {} is damaged", path);
  error.why = std::move(why);
  return error;
}

std::span<const std::byte> bytesOf(std::string_view text) { return std::as_bytes(std::span(text)); }

// The trailer: the checksums of the header and of each tensor, and the checksum of these.
std::string checksumText(std::vector<Crc> crcs) {
  crcs.push_back(crc32c(std::as_bytes(std::span(crcs))));
  return {reinterpret_cast<const char*>(crcs.data()), crcs.size() * sizeof(Crc)};
}

// Tensors by name in file order: contiguous, up to the end of the file.
using Placed = std::vector<std::pair<std::string, TensorFile::Entry>>;

Status checkPlaces(const std::string& path, const Placed& placed, std::size_t dataSize) {
  std::size_t end = 0;
  for (const auto& [name, entry] : placed) {
    if (entry.offset != end)
      return corrupt(path, message("tensor {} begins at byte {} of the data, expected {}", name,
                                   entry.offset, end));
    end += entry.size;
  }
  if (end == dataSize) return {};
  return corrupt(path, message("{} bytes follow the last tensor", dataSize - end));
}

// Verifies a file whose last tensor is `sums`.
Status checkSums(const std::string& path, const TensorFile& file, const Placed& placed,
                 const TensorFile::Entry& sums) {
  std::vector<Crc> known(sums.size / sizeof(Crc));
  if (known.size() != placed.size() + 1)
    return corrupt(path,
                   message("it has {} checksums for {} tensors", known.size(), placed.size() - 1));
  std::memcpy(known.data(), file.bytes(sums).data(), sums.size);
  const auto own = std::as_bytes(std::span(known)).first(sums.size - sizeof(Crc));
  if (crc32c(own) != known.back())
    return corrupt(path, "the checksums themselves are not what was written");
  const auto header = std::as_bytes(std::span(file.storage)).first(file.dataOffset);
  if (crc32c(header) != known[0])
    return corrupt(path, "the header is not what was written: its checksum differs");
  for (std::size_t i = 0; i + 1 < placed.size(); ++i)
    if (crc32c(file.bytes(placed[i].second)) != known[i + 1])
      return corrupt(path, message("tensor {} is not what was written: its checksum differs",
                                   placed[i].first));
  return {};
}

Status readEntry(const json& value, std::size_t dataSize, TensorFile::Entry& entry) {
  const auto bad = [](const Message& what) { return makeError(Code::kDataLoss, "{}", what); };
  if (!value.is_object() || !value.contains("dtype") || !value["dtype"].is_string() ||
      !value.contains("shape") || !value["shape"].is_array() || !value.contains("data_offsets") ||
      !value["data_offsets"].is_array() || value["data_offsets"].size() != 2)
    return bad("an entry needs dtype, shape and data_offsets");
  bool known = false;
  for (const auto& [type, name] : kNames)
    if (value["dtype"].get<std::string>() == name) {
      entry.dtype = type;
      known = true;
    }
  if (!known) return bad(message("unknown dtype {}", value["dtype"].get<std::string>()));
  std::uint64_t count = 1;
  for (const json& extent : value["shape"]) {
    if (!extent.is_number_unsigned()) return bad("a shape is a list of counts");
    const std::uint64_t n = extent.get<std::uint64_t>();
    if (n > dataSize || (n != 0 && count > dataSize / n)) return bad("a shape exceeds the file");
    count *= n;
    entry.shape.push_back(static_cast<std::int64_t>(n));
  }
  const json &from = value["data_offsets"][0], &to = value["data_offsets"][1];
  if (!from.is_number_unsigned() || !to.is_number_unsigned()) return bad("offsets are counts");
  const std::uint64_t begin = from.get<std::uint64_t>(), end = to.get<std::uint64_t>();
  if (begin > end || end > dataSize) return bad("offsets lie outside the file");
  if (end - begin != count * sizeOf(entry.dtype)) return bad("shape and offsets disagree");
  entry.offset = begin;
  entry.size = end - begin;
  return {};
}

}  // namespace

Status writeTensors(const std::string& path, const std::vector<TensorInfo>& tensors,
                    const std::map<std::string, std::string>& metadata, const TensorBytes& bytes,
                    Checksums checksums) {
  const bool hasChecksums = checksums == Checksums::kCrc32c;
  nlohmann::ordered_json header;
  if (!metadata.empty()) header["__metadata__"] = metadata;
  if (hasChecksums) header["__metadata__"][kChecksums] = kCrc32c;
  std::int64_t offset = 0;
  for (const TensorInfo& tensor : tensors) {
    LOCKSTEP_CHECK(!header.contains(tensor.name), "two tensors are named {}", tensor.name);
    header[tensor.name] = {{"dtype", fileName(tensor.dtype)},
                           {"shape", tensor.shape},
                           {"data_offsets", {offset, offset + tensor.bytes()}}};
    offset += tensor.bytes();
  }
  if (hasChecksums) {
    const std::size_t count = tensors.size() + 2;
    header[kChecksumTensor] = {
        {"dtype", "U32"},
        {"shape", {count}},
        {"data_offsets", {offset, offset + static_cast<std::int64_t>(count * sizeof(Crc))}}};
  }
  std::string text =
      header.is_null() ? "{}" : header.dump(-1, ' ', false, json::error_handler_t::replace);
  text.append((8 - text.size() % 8) % 8, ' ');
  std::string head(sizeof(std::uint64_t), '\0');
  const std::uint64_t length = text.size();
  std::memcpy(head.data(), &length, sizeof length);
  head += text;
  return writeFileAtomically(path, [&](const Append& append) -> Status {
    std::vector<Crc> crcs{hasChecksums ? crc32c(bytesOf(head)) : 0};
    LOCKSTEP_TRY(append(head));
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      LOCKSTEP_ASSIGN(const std::span<const std::byte> data, bytes(i));
      LOCKSTEP_CHECK(static_cast<std::int64_t>(data.size()) == tensors[i].bytes());
      if (hasChecksums) crcs.push_back(crc32c(data));
      LOCKSTEP_TRY(append({reinterpret_cast<const char*>(data.data()), data.size()}));
    }
    if (hasChecksums) LOCKSTEP_TRY(append(checksumText(std::move(crcs))));
    return {};
  });
}

namespace {

Result<TensorFile> read(const std::string& path) {
  TensorFile out;
  std::error_code none;
  const auto kind = std::filesystem::status(path, none).type();
  if (kind != std::filesystem::file_type::regular && kind != std::filesystem::file_type::not_found)
    return corrupt(path, kind == std::filesystem::file_type::directory
                             ? "it is a folder"
                             : "it is not a regular file");
  LOCKSTEP_ASSIGN(out.storage, readFile(path, std::size_t{1} << 40));
  std::uint64_t length = 0;
  if (out.storage.size() < sizeof length) return corrupt(path, "shorter than its length field");
  std::memcpy(&length, out.storage.data(), sizeof length);
  if (length > kMostHeader || length > out.storage.size() - sizeof length)
    return corrupt(
        path, message("it has {} bytes, and its header would have {}", out.storage.size(), length));
  out.dataOffset = sizeof length + length;
  const json header = json::parse(out.storage.data() + sizeof length,
                                  out.storage.data() + out.dataOffset, nullptr, false);
  if (!header.is_object()) return corrupt(path, "the header is not JSON");
  const std::size_t dataSize = out.storage.size() - out.dataOffset;
  Placed placed;
  for (const auto& [name, value] : header.items()) {
    if (name == "__metadata__") {
      if (!value.is_object()) return corrupt(path, "__metadata__ is not an object");
      for (const auto& [key, text] : value.items()) {
        if (!text.is_string()) return corrupt(path, "__metadata__ holds a value that is not text");
        out.metadata[key] = text.get<std::string>();
      }
      continue;
    }
    Status entry =
        readEntry(value, dataSize, placed.emplace_back(name, TensorFile::Entry{}).second);
    if (!entry.ok()) return corrupt(path, message("tensor {}: {}", name, entry.error().what));
  }
  std::sort(placed.begin(), placed.end(), [](const auto& a, const auto& b) {
    return std::pair(a.second.offset, a.second.size) < std::pair(b.second.offset, b.second.size);
  });
  LOCKSTEP_TRY(checkPlaces(path, placed, dataSize));
  const auto named = out.metadata.find(kChecksums);
  const bool hasTensor = !placed.empty() && placed.back().first == kChecksumTensor;
  if (named != out.metadata.end() || hasTensor) {
    if (named == out.metadata.end() || named->second != kCrc32c || !hasTensor)
      return corrupt(path, "its header does not say where its checksums are");
    LOCKSTEP_TRY(checkSums(path, out, placed, placed.back().second));
    placed.pop_back();
    out.verified = true;
  }
  out.entries = {placed.begin(), placed.end()};
  return out;
}

}  // namespace

Result<TensorFile> readTensors(const std::string& path) {
  return withMemoryFor(message("the tensors of {}", path), 0, [&] { return read(path); });
}

}  // namespace lockstep::runtime
