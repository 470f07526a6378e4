#include "agent/node/staging.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>

#include "agent/host/metrics.h"
#include "engine/base/hash.h"
#include "engine/base/list_folder.h"
#include "engine/base/part_file.h"

namespace lockstep::agent {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kSpareBytes = std::int64_t{32} << 20;
constexpr std::chrono::milliseconds kLook{100};  // whether the client is still there

bool isSha256(const std::string& text) {
  return text.size() == 64 && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

// Paths of this host: on a shared file system other hosts have theirs beside them.
std::string partPrefix() { return fmt::format(".part-{}-", hostName()); }

// Sets the time of the last use, which decides when the file may be removed (workdir_items.h).
void markUsed(const std::string& path) {
  const timespec times[2] = {{0, UTIME_NOW}, {0, UTIME_OMIT}};
  utimensat(AT_FDCWD, path.c_str(), times, 0);
}

Error cancelledError() { return makeError(Code::kCancelled, "the launch was cancelled"); }

Error noSpace(const std::string& name, const std::string& folder, std::int64_t bytes) {
  Error error =
      makeError(Code::kResourceExhausted, "no space for the data file {} in {}", name, folder);
  error.why = message("{} MiB are free, {} MiB are needed",
                      std::max<std::int64_t>(0, diskFree(folder)) >> 20,
                      (bytes >> 20) + (kSpareBytes >> 20));
  error.next = "free space there, or choose another workdir";
  return error;
}

// A file that is being written; removed unless it is kept.
class Part {
 public:
  Part(std::string name, std::string folder) : name_(std::move(name)), folder_(std::move(folder)) {}
  ~Part() {
    if (fd_ >= 0) close(fd_);
    if (!path_.empty()) unlink(path_.c_str());
  }
  Part(const Part&) = delete;
  Part& operator=(const Part&) = delete;

  // All of its space is taken at once where the file system can.
  Status create(std::int64_t bytes) {
    static std::atomic<int> number = 0;
    bytes_ = bytes;
    if (const std::int64_t free = diskFree(folder_); free >= 0 && free - kSpareBytes < bytes)
      return noSpace(name_, folder_, bytes);
    const std::string path = fmt::format("{}/{}{}-{}", folder_, partPrefix(), getpid(), ++number);
    fd_ = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd_ < 0) return systemError(errno, message("cannot create {}", path));
    (void)holdPart(fd_);
    path_ = path;
    if (bytes > 0 && fallocate(fd_, 0, 0, bytes) != 0 && errno == ENOSPC)
      return noSpace(name_, folder_, bytes);
    return {};
  }
  Status append(std::string_view bytes) {
    hash_.update(bytes);
    written_ += static_cast<std::int64_t>(bytes.size());
    while (!bytes.empty()) {
      const ssize_t count = write(fd_, bytes.data(), bytes.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0 && errno == ENOSPC) return noSpace(name_, folder_, bytes_);
      if (count < 0) return systemError(errno, message("cannot write {}", path_));
      bytes.remove_prefix(static_cast<std::size_t>(count));
    }
    return {};
  }
  std::int64_t written() const { return written_; }
  std::string sha256() { return hash_.hex(); }  // call once
  Status keep(const std::string& as) {
    if (fchmod(fd_, 0400) != 0 || fsync(fd_) != 0)
      return systemError(errno, message("cannot write {}", path_));
    if (rename(path_.c_str(), as.c_str()) != 0)
      return systemError(errno, message("cannot rename to {}", as));
    path_.clear();
    const int parent = open(fs::path(as).parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (parent >= 0) {
      fsync(parent);
      close(parent);
    }
    return {};
  }

 private:
  const std::string name_, folder_;
  std::string path_;
  int fd_ = -1;
  std::int64_t bytes_ = 0, written_ = 0;
  Sha256 hash_;
};

}  // namespace

// The right to bring the file of one hash.
class Staging::KeyedLock {
 public:
  KeyedLock(Staging& staging, std::string sha256) : staging_(staging), sha256_(std::move(sha256)) {}
  ~KeyedLock() {
    if (!held_) return;
    const std::lock_guard lock(staging_.mutex_);
    staging_.arriving_.erase(sha256_);
    staging_.changed_.notify_all();
  }
  KeyedLock(const KeyedLock&) = delete;
  KeyedLock& operator=(const KeyedLock&) = delete;

  Status await(const std::function<bool()>& cancelled) {
    std::unique_lock lock(staging_.mutex_);
    while (!(held_ = staging_.arriving_.insert(sha256_).second)) {
      staging_.changed_.wait_for(lock, kLook);
      lock.unlock();
      if (cancelled()) return cancelledError();
      lock.lock();
    }
    return {};
  }

 private:
  Staging& staging_;
  const std::string sha256_;
  bool held_ = false;
};

Staging::Staging(const Workdir& workdir, DataCache& cache)
    : folder_(workdir.path + "/data"), cache_(cache) {
  for (const auto& entry : listFolder(folder_))
    if (entry.filename().string().starts_with(partPrefix())) removeLeftPart(entry);
}

Result<bool> Staging::holds(const std::string& path, const std::string& sha256, std::int64_t bytes,
                            const DataObserver& observer) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode) ||
      (bytes >= 0 && info.st_size != bytes))
    return false;
  const auto facts = cache_.inspect(path, "whole", [&]() -> Result<data::FileFacts> {
    data::FileFacts read;
    LOCKSTEP_ASSIGN(read.sha256,
                    sha256File(path, progressOf(node::v1::DataProgress::HASHING, path, observer)));
    read.dimensions = {info.st_size};
    return read;
  });
  if (facts.status().code() == Code::kCancelled) return facts.error();
  return facts.ok() && facts->sha256 == sha256;
}

Result<std::string> Staging::staged(const std::string& sha256, std::int64_t bytes,
                                    const DataObserver& observer) {
  for (const auto& entry : listFolder(folder_ + "/" + sha256)) {
    LOCKSTEP_ASSIGN(const bool held, holds(entry, sha256, bytes, observer));
    if (!held) continue;
    markUsed(entry);
    return entry.string();
  }
  return std::string();
}

Result<node::v1::FindFileReply> Staging::find(const node::v1::FindFileRequest& request,
                                              const DataObserver& observer) {
  if (!isSha256(request.sha256()))
    return invalidArgument("\"{}\" is not a SHA-256", request.sha256());
  const std::int64_t bytes = request.has_bytes() ? request.bytes() : -1;
  node::v1::FindFileReply reply;
  if (request.path().starts_with('/')) {
    LOCKSTEP_ASSIGN(const bool held, holds(request.path(), request.sha256(), bytes, observer));
    if (held) reply.set_path(request.path());
    if (held && request.path().starts_with(folder_ + "/")) markUsed(request.path());
  }
  if (reply.path().empty()) {
    LOCKSTEP_ASSIGN(*reply.mutable_path(), staged(request.sha256(), bytes, observer));
  }
  return reply;
}

Result<node::v1::StageFileReply> Staging::receive(const Read& read,
                                                  const std::function<bool()>& cancelled) {
  node::v1::StageFileRequest piece;
  if (!read(piece)) return cancelledError();
  const std::string sha256 = piece.sha256(), name = piece.name();
  const std::int64_t bytes = piece.bytes();
  if (!isSha256(sha256)) return invalidArgument("\"{}\" is not a SHA-256", sha256);
  if (!isPlainName(name)) return invalidArgument("\"{}\" is not the name of a data file", name);
  if (bytes < 0) return invalidArgument("the data file {} has {} bytes", name, bytes);
  KeyedLock turn(*this, sha256);
  LOCKSTEP_TRY(turn.await(cancelled));
  node::v1::StageFileReply reply;
  LOCKSTEP_ASSIGN(*reply.mutable_path(),
                  staged(sha256, bytes, [&](const auto&) { return !cancelled(); }));
  if (!reply.path().empty()) return reply;

  LOCKSTEP_TRY(makeFolders(folder_));
  Part part(name, folder_);
  LOCKSTEP_TRY(part.create(bytes));
  do {
    LOCKSTEP_TRY(part.append(piece.data()));
  } while (part.written() <= bytes && read(piece));
  if (cancelled()) return cancelledError();
  if (part.written() != bytes) {
    Error error = makeError(Code::kDataLoss, "the data file {} did not arrive whole", name);
    error.why = message("{} bytes were announced, {} arrived", bytes, part.written());
    error.next = "check whether something writes to it, and launch again";
    return error;
  }
  if (const std::string arrived = part.sha256(); arrived != sha256) {
    Error error = makeError(Code::kDataLoss, "the data file {} arrived with other content", name);
    error.why = message("its SHA-256 is {}, the run expects {}", arrived, sha256);
    error.next = "check whether something writes to it, and launch again";
    return error;
  }
  const std::string folder = folder_ + "/" + sha256;
  LOCKSTEP_TRY(makeFolders(folder));
  LOCKSTEP_TRY(part.keep(folder + "/" + name));
  reply.set_path(folder + "/" + name);
  return reply;
}

}  // namespace lockstep::agent
