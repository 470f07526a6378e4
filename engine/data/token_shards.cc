#include "engine/data/token_shards.h"

#include <fnmatch.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string_view>

#include "engine/data/content.h"

namespace lockstep::data {
namespace {

constexpr std::size_t kMostOpen = 64;  // shards whose files stay open
constexpr std::size_t kLongestNpyHeader = 64 << 10;
constexpr std::uint32_t kGzip = 0x088b1f, kGzipReserved = 0xe0000000;  // RFC 1952
constexpr std::string_view kNpyMagic{"\x93NUMPY", 6};

template <typename T>
T numberAt(std::string_view bytes, std::size_t at) {
  T out{};
  if (at + sizeof out <= bytes.size()) std::memcpy(&out, bytes.data() + at, sizeof out);
  return out;
}

// What follows `key` in the text of a Python dict: {'descr': '<u2', 'shape': (8,), }.
std::string_view valueOf(std::string_view dict, std::string_view key) {
  for (const char quote : {'\'', '"'}) {
    const std::size_t at = dict.find(quote + std::string(key) + quote);
    if (at == std::string_view::npos) continue;
    const std::size_t colon = dict.find(':', at + key.size() + 2);
    if (colon == std::string_view::npos) return {};
    const std::size_t value = dict.find_first_not_of(' ', colon + 1);
    return value == std::string_view::npos ? std::string_view() : dict.substr(value);
  }
  return {};
}

Status takeNpy(TokenShard& shard, std::string_view head) {
  const int major = head.size() > 12 ? static_cast<unsigned char>(head[6]) : 0;
  const std::size_t begin = major == 1 ? 10 : 12;
  const std::size_t size =
      major == 1 ? numberAt<std::uint16_t>(head, 8) : numberAt<std::uint32_t>(head, 8);
  if (major < 1 || major > 3 || size > kLongestNpyHeader || begin + size > head.size())
    return dataLoss(shard.path, "its NumPy header is damaged");
  const std::string_view dict = head.substr(begin, size);
  const std::string_view type = valueOf(dict, "descr").substr(0, 5);
  for (const int bytes : {1, 2, 4, 8})
    for (const char kind : {'u', 'i'})
      for (const char order : {'<', '|'})
        for (const char quote : {'\'', '"'})
          if (type == fmt::format("{}{}{}{}{}", quote, order, kind, bytes, quote))
            shard.bytesPerToken = bytes;
  if (shard.bytesPerToken == 0) {
    Error error = dataLoss(shard.path, "it is not an array of little-endian integers");
    error.next = "save it as uint16 or uint32";
    return error;
  }
  std::string_view shape = valueOf(dict, "shape");
  const std::size_t end = std::min(shape.find(')'), shape.size());
  shape = shape.substr(0, end);
  if (shape.starts_with('(')) shape.remove_prefix(1);
  const auto [stop, failed] =
      std::from_chars(shape.data(), shape.data() + shape.size(), shard.count);
  if (failed != std::errc() || shape.substr(static_cast<std::size_t>(stop - shape.data())) != "," ||
      shard.count < 0) {
    Error error = dataLoss(shard.path, "it is not an array of one dimension");
    error.next = "save it flattened";
    return error;
  }
  shard.offset = static_cast<std::int64_t>(begin + size);
  return {};
}

// The headers of llm.c: magic, version, number of tokens.
bool takeLlmC(TokenShard& shard, std::string_view head) {
  constexpr std::size_t kHeader = 256 * sizeof(std::int32_t);
  const auto begins = [&](std::int32_t magic, std::int32_t version) {
    return numberAt<std::int32_t>(head, 0) == magic && numberAt<std::int32_t>(head, 4) == version;
  };
  const bool gpt2 = begins(20240520, 1), llama3 = begins(20240801, 7);
  if (head.size() < kHeader || !(gpt2 || llama3)) return false;
  shard.bytesPerToken = gpt2 ? 2 : 4;
  shard.count = numberAt<std::int32_t>(head, 8);
  shard.offset = kHeader;
  return true;
}

// What the beginning of a file of this size tells.
Status describe(TokenShard& shard, std::string_view head, std::int64_t bytes,
                const TokenFiles& files) {
  const bool isGzip = (numberAt<std::uint32_t>(head, 0) & (kGzipReserved | 0xffffff)) == kGzip;
  if (isGzip || packingOf(head.substr(0, kPackedHead)) == Packing::kZstd) {
    Error error = dataLoss(shard.path, isGzip ? message("it is compressed by gzip")
                                              : message("it is compressed by zstd"));
    error.next = "unpack it: tokens are read at any place of a file";
    return error;
  }
  if (head.starts_with(kNpyMagic)) {
    LOCKSTEP_TRY(takeNpy(shard, head));
  } else if (!takeLlmC(shard, head)) {
    constexpr std::int64_t kTwoBytesHold = 1 << 16;
    shard.bytesPerToken = files.bytesPerToken > 0             ? files.bytesPerToken
                          : files.vocabulary <= kTwoBytesHold ? 2
                                                              : 4;
    shard.count = bytes / shard.bytesPerToken;
    if (bytes % shard.bytesPerToken != 0)
      return dataLoss(shard.path, message("its {} bytes are not tokens of {} bytes", bytes,
                                          shard.bytesPerToken));
  }
  const std::int64_t held = (bytes - shard.offset) / shard.bytesPerToken;
  if (shard.count >= 0 && shard.count <= held) return {};
  return dataLoss(shard.path,
                  message("its header tells of {} tokens; it holds {}", shard.count, held));
}

Result<TokenShard> openShard(const std::string& path, const TokenFiles& files) {
  LOCKSTEP_ASSIGN(OpenFile file, openRegular(path));
  const auto head = readAt(path, file.fd.get(), 0, kLongestNpyHeader + 16);
  if (!head.ok()) return head.error();
  TokenShard shard;
  shard.path = path;
  LOCKSTEP_TRY(describe(shard, *head, file.bytes, files));
  shard.file = std::move(file.fd);
  return shard;
}

Result<std::vector<std::string>> pathsOf(const std::string& pattern) {
  const std::filesystem::path path(pattern);
  const std::string name = path.filename();
  if (name.find_first_of("*?") == std::string::npos) return std::vector{pattern};
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  std::vector<std::string> out;
  std::error_code failed;
  for (std::filesystem::directory_iterator entry(folder, failed), end; !failed && entry != end;
       entry.increment(failed))
    if (fnmatch(name.c_str(), entry->path().filename().c_str(), FNM_PERIOD) == 0)
      out.push_back(entry->path().string());
  // A part of the files would be other data.
  if (failed) return systemError(failed.value(), message("cannot list {}", folder.string()));
  std::ranges::sort(out);
  if (!out.empty()) return out;
  Error error = makeError(Code::kNotFound, "there is no data file {}", pattern);
  error.next = "correct the path, or put the files there";
  return error;
}

}  // namespace

Result<TokenShards> TokenShards::open(const TokenFiles& files) {
  LOCKSTEP_ASSIGN(const std::vector<std::string> paths, pathsOf(files.path));
  TokenShards out;
  out.vocabulary_ = files.vocabulary;
  for (const std::string& path : paths) {
    LOCKSTEP_ASSIGN(TokenShard shard, openShard(path, files));
    shard.first = out.count();
    if (paths.size() > kMostOpen) shard.file.reset();
    out.shards_.push_back(std::move(shard));
  }
  return out;
}

std::int64_t TokenShards::count() const {
  return shards_.empty() ? 0 : shards_.back().first + shards_.back().count;
}

Status TokenShards::read(std::int64_t first, std::span<std::int32_t> out) const {
  auto shard = std::ranges::upper_bound(shards_, first, {}, &TokenShard::first);
  for (--shard; !out.empty(); ++shard) {
    const std::int64_t there = shard->first + shard->count - first;
    const auto here = static_cast<std::size_t>(std::clamp<std::int64_t>(there, 0, std::ssize(out)));
    LOCKSTEP_TRY(readFrom(*shard, first - shard->first, out.first(here)));
    out = out.subspan(here);
    first += static_cast<std::int64_t>(here);
  }
  return {};
}

Status TokenShards::readFrom(const TokenShard& shard, std::int64_t first,
                             std::span<std::int32_t> out) const {
  if (out.empty()) return {};
  OpenFile opened;
  if (!shard.file) {
    LOCKSTEP_ASSIGN(opened, openRegular(shard.path));
  }
  const auto width = static_cast<std::size_t>(shard.bytesPerToken);
  LOCKSTEP_ASSIGN(const std::string bytes,
                  readAt(shard.path, shard.file ? shard.file.get() : opened.fd.get(),
                         shard.offset + first * shard.bytesPerToken, out.size() * width));
  if (bytes.size() < out.size() * width)
    return dataLoss(shard.path, "it has become shorter since it was opened");
  for (std::size_t i = 0; i < out.size(); ++i) {
    std::uint64_t token = 0;
    std::memcpy(&token, bytes.data() + i * width, width);
    if (token >= static_cast<std::uint64_t>(vocabulary_)) {
      Error error =
          dataLoss(shard.path, message("token {} of it is {}; the vocabulary has {}",
                                       first + static_cast<std::int64_t>(i), token, vocabulary_));
      error.next = "raise model.input.vocabulary, or correct data.token_type";
      return error;
    }
    out[i] = static_cast<std::int32_t>(token);
  }
  return {};
}

}  // namespace lockstep::data
