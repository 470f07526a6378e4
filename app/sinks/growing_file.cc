#include "app/sinks/growing_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <utility>

#include "app/core/home.h"
#include "engine/base/unique_fd.h"

namespace lockstep::app {
namespace {

// Returns an errno, or 0.
int writeAt(int fd, std::string_view bytes, std::int64_t at) {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(fd, bytes.data(), bytes.size(), at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return n < 0 ? errno : EIO;
    bytes.remove_prefix(static_cast<std::size_t>(n));
    at += n;
  }
  return 0;
}

}  // namespace

GrowingFile::GrowingFile(std::string path, std::int64_t size, std::string head)
    : path_(std::move(path)), head_(std::move(head)), size_(size) {}

Status GrowingFile::append(std::string_view text) {
  LOCKSTEP_TRY(makeFolders(std::filesystem::path(path_).parent_path(), 0755));
  const UniqueFd file(::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
  struct stat info {};
  if (!file || ::fstat(file.get(), &info) != 0)
    return systemError(errno, message("cannot open {}", path_));
  size_ = std::min<std::int64_t>(size_, info.st_size);
  const std::string begun = size_ == 0 ? head_ + std::string(text) : std::string();
  const std::string_view all = size_ == 0 ? std::string_view(begun) : text;
  int failed = info.st_size > size_ && ::ftruncate(file.get(), size_) != 0 ? errno : 0;
  if (failed == 0) failed = writeAt(file.get(), all, size_);
  if (failed != 0) {
    (void)!::ftruncate(file.get(), size_);  // else the next call does
    return systemError(failed, message("cannot write {}", path_));
  }
  size_ += static_cast<std::int64_t>(all.size());
  return {};
}

}  // namespace lockstep::app
