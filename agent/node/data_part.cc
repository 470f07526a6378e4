#include "agent/node/data_part.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>

#include "agent/base/paths.h"
#include "agent/host/metrics.h"
#include "engine/base/part_file.h"

namespace lockstep::agent {
namespace {

constexpr std::int64_t kSpareBytes = std::int64_t{32} << 20;
constexpr std::int64_t kCheckEvery = std::int64_t{16} << 20;  // of a file of unknown size

Error noSpace(const std::string& name, const std::string& folder, std::int64_t bytes) {
  Error error =
      makeError(Code::kResourceExhausted, "no space for the data file {} in {}", name, folder);
  error.why = message("{} MiB are free, {} MiB are needed",
                      std::max<std::int64_t>(0, diskFree(folder)) >> 20,
                      (bytes >> 20) + (kSpareBytes >> 20));
  error.next = "free space there, or choose another workdir";
  return error;
}

}  // namespace

bool isSha256(std::string_view text) {
  return text.size() == 64 && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

std::string partPrefix() { return fmt::format(".part-{}-", hostName()); }

Part::Part(std::string name, std::string folder)
    : name_(std::move(name)), folder_(std::move(folder)), hash_(std::make_unique<Sha256>()) {}

Part::~Part() {
  if (fd_ >= 0) close(fd_);
  if (!path_.empty()) unlink(path_.c_str());
}

Status Part::create(std::int64_t bytes) {
  static std::atomic<int> number = 0;
  if (const std::int64_t free = diskFree(folder_); free >= 0 && free - kSpareBytes < bytes)
    return noSpace(name_, folder_, bytes);
  const std::string path = fmt::format("{}/{}{}-{}", folder_, partPrefix(), getpid(), ++number);
  fd_ = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd_ < 0) return systemError(errno, message("cannot create {}", path));
  (void)holdPart(fd_);
  path_ = path;
  return reserve(bytes);
}

Status Part::reserve(std::int64_t bytes) {
  bytes_ = bytes;
  if (bytes > 0 && fallocate(fd_, 0, 0, bytes) != 0 && errno == ENOSPC)
    return noSpace(name_, folder_, bytes);
  return {};
}

Status Part::append(std::string_view bytes) {
  hash_->update(bytes);
  written_ += static_cast<std::int64_t>(bytes.size());
  if (bytes_ < 0 && written_ - checked_ > kCheckEvery) {
    checked_ = written_;
    if (const std::int64_t free = diskFree(folder_); free >= 0 && free < kSpareBytes + kCheckEvery)
      return noSpace(name_, folder_, kCheckEvery);
  }
  while (!bytes.empty()) {
    const ssize_t count = write(fd_, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == ENOSPC)
      return noSpace(name_, folder_, std::max<std::int64_t>(bytes_, 0));
    if (count < 0) return systemError(errno, message("cannot write {}", path_));
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return {};
}

Status Part::startOver(std::int64_t bytes) {
  if (ftruncate(fd_, 0) != 0 || lseek(fd_, 0, SEEK_SET) != 0)
    return systemError(errno, message("cannot write {}", path_));
  hash_ = std::make_unique<Sha256>();
  written_ = checked_ = 0;
  return reserve(bytes);
}

Result<std::string> Part::keep(const std::string& sha256) {
  const std::string folder = folder_ + "/" + sha256, as = folder + "/" + name_;
  LOCKSTEP_TRY(makeFolders(folder));
  if (fchmod(fd_, 0400) != 0 || fsync(fd_) != 0)
    return systemError(errno, message("cannot write {}", path_));
  if (rename(path_.c_str(), as.c_str()) != 0)
    return systemError(errno, message("cannot rename to {}", as));
  path_.clear();
  const int parent = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (parent >= 0) {
    fsync(parent);
    close(parent);
  }
  return as;
}

}  // namespace lockstep::agent
