#include "agent/node/staging.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <chrono>
#include <sstream>
#include <vector>

#include "agent/node/data_part.h"
#include "agent/node/file_fetch.h"
#include "engine/base/file.h"
#include "engine/base/hash.h"
#include "engine/base/list_folder.h"
#include "engine/base/part_file.h"
#include "engine/specs/data_url.h"

namespace lockstep::agent {
namespace {

constexpr std::chrono::milliseconds kLook{100};  // whether the client is still there

// Sets the time of the last use, which decides when the file may be removed (workdir_items.h).
void markUsed(const std::string& path) {
  const timespec times[2] = {{0, UTIME_NOW}, {0, UTIME_OMIT}};
  utimensat(AT_FDCWD, path.c_str(), times, 0);
}

constexpr int kMostUrls = 1000;  // whose files are known
constexpr std::size_t kMostUrlBytes = std::size_t{1} << 20;

Error cancelledError() { return makeError(Code::kCancelled, "the launch was cancelled"); }

Status checkFetched(const node::v1::FetchFileRequest& request, const std::string& sha256) {
  if (request.sha256().empty() || request.sha256() == sha256) return {};
  Error error = makeError(Code::kFailedPrecondition, "the data file {} is not the run's",
                          specs::withoutQuery(request.url()));
  error.why = message("its SHA-256 is {}, the run expects {}", sha256, request.sha256());
  error.next = "correct the URL, or the hash in the run";
  return error;
}

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
    : folder_(workdir.path + "/data"), urls_(workdir.path + "/data-urls"), cache_(cache) {
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
  LOCKSTEP_ASSIGN(*reply.mutable_path(), part.keep(sha256));
  return reply;
}

Staging::Fetched Staging::fetchedBefore(const std::string& url) {
  const std::lock_guard lock(mutex_);
  const auto text = readFile(urls_, kMostUrlBytes);
  if (!text.ok()) return {};
  std::string line;
  for (std::istringstream lines(*text); std::getline(lines, line);) {
    Fetched out;
    std::string key;
    if (std::istringstream(line) >> key >> out.sha256 >> out.etag && key == sha256Hex(url) &&
        isSha256(out.sha256))
      return out;
  }
  return {};
}

// A line: hash of the URL, which may hold a token; hash of the file; ETag. The newest is the first.
void Staging::noteFetched(const std::string& url, const Fetched& fetched) {
  const std::lock_guard lock(mutex_);
  const std::string key = sha256Hex(url);
  std::string text = fmt::format("{} {} {}\n", key, fetched.sha256, fetched.etag);
  const auto known = readFile(urls_, kMostUrlBytes);
  std::istringstream before(known.ok() ? *known : "");
  std::string line;
  for (int kept = 1; kept < kMostUrls && std::getline(before, line);)
    if (!line.starts_with(key)) {
      text += line + "\n";
      ++kept;
    }
  (void)writeFileAtomically(urls_, text, 0600);
}

Result<node::v1::FetchFileReply> Staging::fetch(const node::v1::FetchFileRequest& request,
                                                const DataObserver& observer) {
  if (!request.sha256().empty() && !isSha256(request.sha256()))
    return invalidArgument("\"{}\" is not a SHA-256", request.sha256());
  LOCKSTEP_ASSIGN(const specs::DataUrl url, specs::parseUrl(request.url()));
  Fetched copy{request.sha256(), {}};
  if (copy.sha256.empty()) copy = fetchedBefore(request.url());
  node::v1::FetchFileReply reply;
  if (!copy.sha256.empty()) {
    LOCKSTEP_ASSIGN(*reply.mutable_path(), staged(copy.sha256, -1, observer));
  }
  const bool here = !reply.path().empty();
  if (!here || request.sha256().empty()) {
    LOCKSTEP_TRY(makeFolders(folder_));
    FileFetch fetch(request, url, folder_, here ? copy.etag : std::string(), observer);
    LOCKSTEP_TRY(fetch.run());
    if (!fetch.isUnchanged()) {
      copy = {fetch.part().sha256(), fetch.etag()};
      LOCKSTEP_TRY(checkFetched(request, copy.sha256));
      LOCKSTEP_ASSIGN(*reply.mutable_path(), fetch.part().keep(copy.sha256));
      if (!copy.etag.empty()) noteFetched(request.url(), copy);
    }
  }
  struct stat info {};
  if (stat(reply.path().c_str(), &info) == 0) reply.set_bytes(info.st_size);
  reply.set_sha256(copy.sha256);
  return reply;
}

}  // namespace lockstep::agent
