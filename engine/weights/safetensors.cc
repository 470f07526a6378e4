#include "engine/weights/safetensors.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>

#include "engine/base/crc32c.h"
#include "engine/base/file.h"
#include "engine/base/memory.h"

namespace lockstep::weights {
namespace {

using nlohmann::json;

constexpr std::uint64_t kMostHeader = 100 << 20;  // same limit as other readers
constexpr const char* kChecksums = "checksums";
constexpr std::string_view kCrc32c = "crc32c", kCrc32cBlocks = "crc32c/";
constexpr const char* kChecksumTensor = "checksums.crc32c";
using Crc = std::uint32_t;
constexpr std::size_t kBlockBytes = 1 << 20;
constexpr std::size_t kLeastBlock = 4 << 10, kMostBlock = 64 << 20;  // that are read

constexpr std::pair<DType, std::string_view> kNames[] = {
    {DType::kF32, "F32"}, {DType::kF64, "F64"}, {DType::kBf16, "BF16"},
    {DType::kF16, "F16"}, {DType::kI32, "I32"}, {DType::kI64, "I64"},
    {DType::kU8, "U8"},   {DType::kI32, "U32"}, {DType::kU8, "BOOL"}};

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

// How many checksums a tensor has; `block` 0: each tensor is one block.
std::size_t blocksOf(std::size_t bytes, std::size_t block) {
  return block == 0 || bytes == 0 ? 1 : (bytes - 1) / block + 1;
}

void addChecksums(std::span<const std::byte> tensor, std::vector<Crc>& crcs) {
  do {
    const auto block = tensor.first(std::min(tensor.size(), kBlockBytes));
    crcs.push_back(crc32c(block));
    tensor = tensor.subspan(block.size());
  } while (!tensor.empty());
}

// Returns the size of the blocks that have checksums, 0 for whole tensors; nullopt: another kind.
std::optional<std::size_t> blockBytesOf(std::string_view checksums) {
  if (checksums == kCrc32c) return 0;
  if (!checksums.starts_with(kCrc32cBlocks)) return std::nullopt;
  checksums.remove_prefix(kCrc32cBlocks.size());
  std::size_t out = 0;
  const char* const end = checksums.data() + checksums.size();
  const auto read = std::from_chars(checksums.data(), end, out);
  const bool isValid =
      read.ec == std::errc() && read.ptr == end && out >= kLeastBlock && out <= kMostBlock;
  return isValid ? std::optional(out) : std::nullopt;
}

// Tensors by name in file order: contiguous, up to the end of the file.
using Placed = std::vector<std::pair<std::string, TensorReader::Entry>>;

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

Status readEntry(const json& value, std::size_t dataSize, TensorReader::Entry& entry) {
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
                    Checksums checksums, int mode) {
  const bool hasChecksums = checksums == Checksums::kCrc32c;
  nlohmann::ordered_json header;
  if (!metadata.empty()) header["__metadata__"] = metadata;
  if (hasChecksums)
    header["__metadata__"][kChecksums] = fmt::format("{}{}", kCrc32cBlocks, kBlockBytes);
  std::int64_t offset = 0;
  std::size_t count = 2;  // of checksums
  for (const TensorInfo& tensor : tensors) {
    LOCKSTEP_CHECK(!header.contains(tensor.name), "two tensors are named {}", tensor.name);
    header[tensor.name] = {{"dtype", fileName(tensor.dtype)},
                           {"shape", tensor.shape},
                           {"data_offsets", {offset, offset + tensor.bytes()}}};
    offset += tensor.bytes();
    count += blocksOf(static_cast<std::size_t>(tensor.bytes()), kBlockBytes);
  }
  if (hasChecksums) {
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
  // Filling the page cache takes processor time from the training. Small files are often read again
  // soon, by another host for its copy or after a failure.
  constexpr std::int64_t kLarge = 16 << 20;
  const auto fill = [&](const Append& append) -> Status {
    std::vector<Crc> crcs{hasChecksums ? crc32c(bytesOf(head)) : 0};
    LOCKSTEP_TRY(append(head));
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      LOCKSTEP_ASSIGN(const std::span<const std::byte> data, bytes(i));
      LOCKSTEP_CHECK(static_cast<std::int64_t>(data.size()) == tensors[i].bytes());
      if (hasChecksums) addChecksums(data, crcs);
      LOCKSTEP_TRY(append({reinterpret_cast<const char*>(data.data()), data.size()}));
    }
    if (hasChecksums) LOCKSTEP_TRY(append(checksumText(std::move(crcs))));
    return {};
  };
  return writeFileAtomically(path, fill, mode,
                             offset < kLarge ? PageCache::kUse : PageCache::kAvoid);
}

Status TensorReader::readAt(std::size_t offset, std::span<std::byte> out) const {
  constexpr std::size_t kMostAtOnce = 1 << 20;
  while (!out.empty()) {
    const ssize_t count = pread(file_.get(), out.data(), std::min(out.size(), kMostAtOnce),
                                static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return systemError(errno, message("cannot read {}", path_));
    if (count == 0) return corrupt(path_, "it was truncated while it was being read");
    offset += static_cast<std::size_t>(count);
    out = out.subspan(static_cast<std::size_t>(count));
  }
  return {};
}

Result<TensorReader> TensorReader::open(const std::string& path) {
  TensorReader out;
  out.path_ = path;
  // A pipe is not waited for.
  out.file_ = UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!out.file_) return systemError(errno, message("cannot open {}", path));
  struct stat info {};
  if (fstat(out.file_.get(), &info) != 0)
    return systemError(errno, message("cannot read {}", path));
  if (!S_ISREG(info.st_mode))
    return corrupt(path, S_ISDIR(info.st_mode) ? "it is a folder" : "it is not a regular file");
  Status read = withMemoryFor(message("the header of {}", path), 0, [&] {
    return out.readHeader(static_cast<std::size_t>(info.st_size));
  });
  if (!read.ok()) return read.error();
  return out;
}

Status TensorReader::readHeader(std::size_t fileSize) {
  std::uint64_t length = 0;
  if (fileSize < sizeof length) return corrupt(path_, "it is shorter than its length field");
  LOCKSTEP_TRY(readAt(0, std::as_writable_bytes(std::span(&length, 1))));
  if (length > kMostHeader || length > fileSize - sizeof length)
    return corrupt(path_, message("it has {} bytes, but claims a header of {}", fileSize, length));
  dataOffset_ = sizeof length + length;
  header_.resize(dataOffset_);
  LOCKSTEP_TRY(readAt(0, std::as_writable_bytes(std::span(header_))));
  const json header = json::parse(header_.begin() + sizeof length, header_.end(), nullptr, false);
  if (!header.is_object()) return corrupt(path_, "the header is not JSON");
  const std::size_t dataSize = fileSize - dataOffset_;
  Placed placed;
  for (const auto& [name, value] : header.items()) {
    if (name == "__metadata__") {
      if (!value.is_object()) return corrupt(path_, "__metadata__ is not an object");
      for (const auto& [key, text] : value.items()) {
        if (!text.is_string())
          return corrupt(path_, "__metadata__ has a value that is not a string");
        metadata_[key] = text.get<std::string>();
      }
      continue;
    }
    Status entry = readEntry(value, dataSize, placed.emplace_back(name, Entry{}).second);
    if (!entry.ok()) return corrupt(path_, message("tensor {}: {}", name, entry.error().what));
  }
  std::sort(placed.begin(), placed.end(), [](const auto& a, const auto& b) {
    return std::pair(a.second.offset, a.second.size) < std::pair(b.second.offset, b.second.size);
  });
  LOCKSTEP_TRY(checkPlaces(path_, placed, dataSize));
  const auto named = metadata_.find(kChecksums);
  const bool hasTensor = !placed.empty() && placed.back().first == kChecksumTensor;
  entries_ = {placed.begin(), placed.end()};
  if (named == metadata_.end() && !hasTensor) return {};
  const auto block = named == metadata_.end() ? std::nullopt : blockBytesOf(named->second);
  if (!block || !hasTensor) return corrupt(path_, "its header does not list the checksums");
  blockBytes_ = *block;
  entries_.erase(kChecksumTensor);
  return readSums(placed);
}

// The last of `placed` holds the checksums.
Status TensorReader::readSums(const Placed& placed) {
  const Entry& sums = placed.back().second;
  std::size_t expected = 2;
  for (std::size_t i = 0; i + 1 < placed.size(); ++i) {
    Entry& entry = entries_.at(placed[i].first);
    entry.firstSum = expected - 1;
    expected += blocksOf(entry.size, blockBytes_);
  }
  if (sums.size != expected * sizeof(Crc))
    return corrupt(path_, message("it has {} bytes of checksums, expected {}", sums.size,
                                  expected * sizeof(Crc)));
  std::vector<Crc> known(expected);
  LOCKSTEP_TRY(readAt(dataOffset_ + sums.offset, std::as_writable_bytes(std::span(known))));
  const auto own = std::as_bytes(std::span(known)).first(sums.size - sizeof(Crc));
  if (crc32c(own) != known.back()) return corrupt(path_, "the checksums are damaged");
  if (crc32c(bytesOf(header_)) != known[0])
    return corrupt(path_, "the header's checksum does not match");
  sums_ = std::move(known);
  return {};
}

Status TensorReader::checkBlock(const std::string& name, const Entry& entry, std::size_t number,
                                std::span<const std::byte> block) const {
  if (crc32c(block) == sums_[entry.firstSum + number]) return {};
  if (block.size() == entry.size)
    return corrupt(path_, message("the checksum of tensor {} does not match", name));
  const std::size_t begin = number * blockBytes_;
  return corrupt(
      path_, message("the checksum of tensor {} does not match in block {}, bytes {} to {}", name,
                     number, begin, begin + block.size()));
}

Status TensorReader::read(const std::string& name, std::span<std::byte> out) const {
  LOCKSTEP_TRY(readRange(name, 0, out));
  if (!hasChecksums() || verifiesRanges()) return {};
  return checkBlock(name, entries_.at(name), 0, out);
}

Status TensorReader::readRange(const std::string& name, std::size_t begin,
                               std::span<std::byte> out) const {
  const Entry& entry = entries_.at(name);
  const std::size_t data = dataOffset_ + entry.offset;
  if (!verifiesRanges()) return readAt(data + begin, out);
  std::vector<std::byte> whole;  // a block that is not wanted whole
  while (!out.empty()) {
    const std::size_t number = begin / blockBytes_, from = number * blockBytes_;
    const std::size_t size = std::min(blockBytes_, entry.size - from);
    const std::span wanted = out.first(std::min(out.size(), from + size - begin));
    if (wanted.size() < size) whole.resize(size);
    const std::span block = wanted.size() < size ? std::span(whole) : wanted;
    LOCKSTEP_TRY(readAt(data + from, block));
    LOCKSTEP_TRY(checkBlock(name, entry, number, block));
    if (wanted.size() < size)
      std::memcpy(wanted.data(), block.data() + (begin - from), wanted.size());
    begin += wanted.size();
    out = out.subspan(wanted.size());
  }
  return {};
}

Result<TensorFile> readTensors(const std::string& path) {
  return withMemoryFor(message("the tensors of {}", path), 0, [&]() -> Result<TensorFile> {
    LOCKSTEP_ASSIGN(const TensorReader file, TensorReader::open(path));
    TensorFile out{file.entries(), file.metadata(), file.hasChecksums(), file.dataOffset(), {}};
    std::size_t size = 0;
    for (const auto& [name, entry] : out.entries) size = std::max(size, entry.offset + entry.size);
    out.data.resize(size);
    for (const auto& [name, entry] : out.entries)
      LOCKSTEP_TRY(file.read(name, std::span(out.data).subspan(entry.offset, entry.size)));
    return out;
  });
}

}  // namespace lockstep::weights
