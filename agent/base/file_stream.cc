#include "agent/base/file_stream.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>

#include "engine/base/hash.h"

namespace lockstep::agent {

Status sendFile(const std::string& path, const grpc::ServerContext& context,
                grpc::ServerWriter<node::v1::FetchChunk>& writer) {
  constexpr std::size_t kChunk = std::size_t{1} << 20;
  std::ifstream file(path, std::ios::binary);
  if (!file) return makeError(Code::kNotFound, "there is no file {}", path);
  std::error_code error;
  const auto total = static_cast<std::int64_t>(std::filesystem::file_size(path, error));
  if (error) return systemError(error.value(), message("cannot read {}", path));
  Sha256 hash;
  std::int64_t sent = 0;
  std::string buffer(kChunk, '\0');
  do {
    file.read(buffer.data(), static_cast<std::streamsize>(buffer.size()));
    const auto count = static_cast<std::size_t>(file.gcount());
    node::v1::FetchChunk chunk;
    chunk.set_data(buffer.substr(0, count));
    chunk.set_total(total);
    hash.update(chunk.data());
    sent += static_cast<std::int64_t>(count);
    if (count == 0 && sent < total)
      return makeError(Code::kDataLoss, "{} became shorter while it was read", path);
    if (sent >= total) chunk.set_sha256(hash.hex());
    if (!writer.Write(chunk) || context.IsCancelled()) return {};
  } while (sent < total);
  return {};
}

Status sendPart(int fd, std::int64_t offset, std::int64_t bytes, const grpc::ServerContext& context,
                grpc::ServerWriter<node::v1::FetchChunk>& writer) {
  constexpr std::int64_t kChunk = std::int64_t{1} << 20;
  struct stat info {};
  if (fstat(fd, &info) != 0) return systemError(errno, "cannot read the file");
  if (offset < 0 || bytes < 0 || offset > info.st_size)
    return invalidArgument("the file has {} bytes: there is no part of {} from {} on", info.st_size,
                           bytes, offset);
  std::int64_t left = std::min<std::int64_t>(bytes, info.st_size - offset);
  Sha256 hash;
  std::string buffer(static_cast<std::size_t>(std::min(kChunk, std::max<std::int64_t>(left, 1))),
                     '\0');
  do {
    const auto size = static_cast<std::size_t>(std::min(kChunk, left));
    ssize_t count = 0;
    do count = pread(fd, buffer.data(), size, offset);
    while (count < 0 && errno == EINTR);
    if (count < 0) return systemError(errno, "cannot read the file");
    if (count == 0 && left > 0)
      return makeError(Code::kDataLoss, "the file became shorter while it was read");
    node::v1::FetchChunk chunk;
    chunk.set_data(buffer.data(), static_cast<std::size_t>(count));
    chunk.set_total(info.st_size);
    hash.update(chunk.data());
    offset += count;
    left -= count;
    if (left == 0) chunk.set_sha256(hash.hex());
    if (!writer.Write(chunk) || context.IsCancelled()) return {};
  } while (left > 0);
  return {};
}

}  // namespace lockstep::agent
