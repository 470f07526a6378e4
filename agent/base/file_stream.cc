#include "agent/base/file_stream.h"

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

}  // namespace lockstep::agent
