#include "engine/data/token_writer.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <utility>

namespace lockstep::data {
namespace {

constexpr std::size_t kHeader = 128;  // bytes; numpy.lib.format, version 1.0
constexpr std::size_t kBuffer = std::size_t{1} << 20;

std::string header(int bytesPerToken, std::int64_t count) {
  constexpr std::size_t kPrefix = 10;
  std::string out("\x93NUMPY\x01\x00", 8);
  out += static_cast<char>(kHeader - kPrefix);
  out += '\0';
  out += fmt::format("{{'descr': '<u{}', 'fortran_order': False, 'shape': ({},), }}", bytesPerToken,
                     count);
  out.resize(kHeader - 1, ' ');
  return out + '\n';
}

}  // namespace

Result<TokenWriter> TokenWriter::open(const std::string& path, int bytesPerToken) {
  TokenWriter out;
  out.path_ = path;
  out.bytesPerToken_ = bytesPerToken;
  // Hidden: patterns of names, as train-*, do not stand for it.
  const std::filesystem::path place(path);
  out.temporary_ = place.parent_path() / fmt::format(".{}.XXXXXX", place.filename().string());
  out.file_.reset(mkostemp(out.temporary_.data(), O_CLOEXEC));
  if (!out.file_) {
    out.temporary_.clear();
    return systemError(errno, message("cannot write {}", path));
  }
  const mode_t masked = umask(0);
  umask(masked);
  fchmod(out.file_.get(), 0666 & ~masked);
  out.end_ = kHeader;
  return out;
}

TokenWriter::~TokenWriter() {
  if (file_ && !temporary_.empty()) unlink(temporary_.c_str());
}

Status TokenWriter::write(std::int64_t offset, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t done =
        pwrite(file_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return systemError(errno, message("cannot write {}", temporary_));
    offset += done;
    bytes.remove_prefix(static_cast<std::size_t>(done));
  }
  return {};
}

Status TokenWriter::add(std::span<const std::int32_t> tokens) {
  for (const std::int32_t token : tokens)
    buffer_.append(reinterpret_cast<const char*>(&token), static_cast<std::size_t>(bytesPerToken_));
  count_ += std::ssize(tokens);
  if (buffer_.size() < kBuffer) return {};
  LOCKSTEP_TRY(write(end_, buffer_));
  end_ += std::ssize(buffer_);
  buffer_.clear();
  return {};
}

Status TokenWriter::finish() {
  LOCKSTEP_TRY(write(end_, buffer_));
  LOCKSTEP_TRY(write(0, header(bytesPerToken_, count_)));
  if (fsync(file_.get()) != 0) return systemError(errno, message("cannot write {}", temporary_));
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0)
    return systemError(errno, message("cannot write {}", path_));
  temporary_.clear();
  return {};
}

}  // namespace lockstep::data
