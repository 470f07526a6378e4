#include "engine/base/file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <utility>

#include "engine/base/memory.h"
#include "engine/base/unique_fd.h"

namespace lockstep {
namespace {

Status writeAll(int fd, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t count = write(fd, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return systemError(errno, message("cannot write {}", path));
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return {};
}

// Appends to a file around the page cache; through it where the file system has no other way.
class UncachedFile {
 public:
  UncachedFile(int fd, const std::string& path) : fd_(fd), path_(path) { setDirect(true); }

  Status append(std::string_view bytes) {
    if (!buffer_) return outOfMemory(message("writing {}", path_), kBuffer);
    while (!bytes.empty()) {
      const std::size_t count = std::min(bytes.size(), kBuffer - filled_);
      std::memcpy(buffer_.get() + filled_, bytes.data(), count);
      filled_ += count;
      bytes.remove_prefix(count);
      if (filled_ == kBuffer) LOCKSTEP_TRY(flush());
    }
    return {};
  }
  // Writes the rest, which may end within a block of the disk.
  Status finish() {
    setDirect(false);
    return flush();
  }

 private:
  static constexpr std::size_t kBlock = 4096, kBuffer = std::size_t{1} << 20;

  void setDirect(bool direct) {
    const int flags = fcntl(fd_, F_GETFL);
    isDirect_ = fcntl(fd_, F_SETFL, direct ? flags | O_DIRECT : flags & ~O_DIRECT) == 0 && direct;
  }
  Status flush() {
    std::string_view left(buffer_.get(), std::exchange(filled_, 0));
    while (!left.empty()) {
      const ssize_t count = write(fd_, left.data(), left.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0 && errno == EINVAL && isDirect_) {
        setDirect(false);
        continue;
      }
      if (count < 0) return systemError(errno, message("cannot write {}", path_));
      left.remove_prefix(static_cast<std::size_t>(count));
    }
    return {};
  }

  const int fd_;
  const std::string& path_;
  bool isDirect_ = false;
  std::unique_ptr<char, decltype(&std::free)> buffer_{
      static_cast<char*>(std::aligned_alloc(kBlock, kBuffer)), &std::free};
  std::size_t filled_ = 0;
};

// Resolves symbolic links, whether the final target exists or not.
std::string withoutLinks(const std::string& given) {
  std::filesystem::path path = given;
  std::error_code none;
  constexpr int kMostLinks = 40;
  for (int i = 0; i < kMostLinks && std::filesystem::is_symlink(path, none); ++i)
    path = path.parent_path() / std::filesystem::read_symlink(path, none);
  return path.string();
}

}  // namespace

namespace {

// Timeout for data from a FIFO, pipe or terminal.
constexpr int kSilenceMs = 10'000;

Result<std::string> readAll(const std::string& path, std::size_t limit) {
  UniqueFd file{open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (!file) return systemError(errno, message("cannot open {}", path));
  std::string out;
  struct stat info {};
  if (fstat(file.get(), &info) == 0 && S_ISREG(info.st_mode) &&
      static_cast<std::size_t>(info.st_size) <= limit)
    out.reserve(static_cast<std::size_t>(info.st_size));
  char buffer[1 << 16];
  bool waited = false;
  for (;;) {
    const ssize_t count = read(file.get(), buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    // A FIFO without a writer yields no data, which only poll() distinguishes.
    if ((count < 0 && errno == EAGAIN) ||
        (count == 0 && out.empty() && !waited && S_ISFIFO(info.st_mode))) {
      pollfd ready{file.get(), POLLIN, 0};
      const int found = poll(&ready, 1, kSilenceMs);
      waited = count == 0 && found > 0;
      if (found > 0 || (found < 0 && errno == EINTR)) continue;
      Error error = makeError(Code::kDeadlineExceeded, "cannot read {}", path);
      error.why = message("nothing was written to it for {} s", kSilenceMs / 1000);
      return error;
    }
    if (count < 0) return systemError(errno, message("cannot read {}", path));
    if (count == 0) return out;
    out.append(buffer, static_cast<std::size_t>(count));
    if (out.size() > limit)
      return makeError(Code::kResourceExhausted, "{} is larger than {} bytes", path, limit);
  }
}

}  // namespace

Result<std::string> readFile(const std::string& path, std::size_t limit) {
  std::error_code none;
  const auto size = std::filesystem::file_size(path, none);
  return withMemoryFor(message("the content of {}", path),
                       none ? 0 : static_cast<std::int64_t>(size),
                       [&] { return readAll(path, limit); });
}

Status writeFileAtomically(const std::string& path, std::string_view bytes, int mode) {
  return writeFileAtomically(
      path, [&](const Append& append) { return append(bytes); }, mode);
}

Status writeFileAtomically(const std::string& given,
                           const std::function<Status(const Append&)>& fill, int mode,
                           PageCache cache, Durability durability) {
  const std::string path = withoutLinks(given);
  struct stat info {};
  if (lstat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
    UniqueFd there{open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode)};
    if (!there) return systemError(errno, message("cannot write {}", path));
    return fill([&](std::string_view bytes) { return writeAll(there.get(), bytes, path); });
  }
  static std::atomic<unsigned> writes = 0;  // threads of one process may write one file
  const std::string temporary = fmt::format("{}.tmp{}-{}", path, getpid(), ++writes);
  {
    UniqueFd file{open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode)};
    if (!file) return systemError(errno, message("cannot create {}", temporary));
    Status status;
    if (cache == PageCache::kAvoid) {
      UncachedFile uncached(file.get(), temporary);
      status = fill([&](std::string_view bytes) { return uncached.append(bytes); });
      if (status.ok()) status = uncached.finish();
    } else {
      status = fill([&](std::string_view bytes) { return writeAll(file.get(), bytes, temporary); });
    }
    if (status.ok() && durability == Durability::kSynced && fsync(file.get()) != 0)
      status = systemError(errno, message("cannot sync {}", temporary));
    if (!status.ok()) {
      unlink(temporary.c_str());
      return status;
    }
  }
  if (rename(temporary.c_str(), path.c_str()) != 0) {
    Error error = systemError(errno, message("cannot rename to {}", path));
    unlink(temporary.c_str());
    return error;
  }
  if (durability == Durability::kNone) return {};
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  UniqueFd parent{open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (parent && fsync(parent.get()) != 0 && errno == EIO)
    return systemError(errno, message("cannot sync {}", folder));
  return {};
}

}  // namespace lockstep
