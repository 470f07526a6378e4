#include "agent/node/sweep.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <map>
#include <mutex>
#include <vector>

#include "agent/base/run_folder.h"
#include "agent/base/unix_server.h"
#include "agent/host/version_lease.h"
#include "engine/base/file.h"
#include "engine/base/list_folder.h"
#include "engine/base/log.h"
#include "engine/base/unique_fd.h"

namespace lockstep::agent {
namespace {

namespace fs = std::filesystem;

bool isOld(const std::string& path) {
  constexpr std::time_t kOld = 60;
  struct stat info {};
  return lstat(path.c_str(), &info) == 0 && info.st_mtime + kOld < std::time(nullptr);
}

// The locks of who serves at sockets that may be served again.
std::map<std::string, std::string> locksBySocket(const Workdir& workdir,
                                                 const std::vector<RunFolder>& runs) {
  std::map<std::string, std::string> out;
  for (const RunFolder& folder : runs) out[folder.socket()] = folder.lock();
  for (const auto& entry : listFolder(workdir.runtime)) {
    fs::path socket = entry;
    if (socket.extension() == ".lock") out[socket.replace_extension(".sock")] = entry;
  }
  return out;
}

void sweepSockets(const Workdir& workdir, const std::vector<RunFolder>& runs) {
  const auto locks = locksBySocket(workdir, runs);
  for (const auto& entry : listFolder(workdir.runtime)) {
    const std::string path = entry.string();
    if (entry.extension() != ".sock" || !isOld(path)) continue;
    const auto fd = connectUnix(path, nullptr);
    if (fd.ok()) close(*fd);
    if (fd.ok() || fd.error().why != systemError(ECONNREFUSED, "").why) continue;
    const auto known = locks.find(path);
    if (known == locks.end()) {
      unlink(path.c_str());
    } else if (const UniqueFd lock(tryLock(known->second)); lock) {
      unlink(path.c_str());
    }
  }
}

}  // namespace

std::optional<Sweeper::Stamp> Sweeper::stampOf(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return std::nullopt;
  return Stamp{static_cast<std::int64_t>(info.st_ino), info.st_mtim.tv_sec, info.st_mtim.tv_nsec};
}

// The new request is written and synced before the run is locked: a supervisor that starts waits
// for a rename, not for the disk.
void Sweeper::dropKeys(const RunFolder& folder) {
  const auto stamp = stampOf(folder.request());
  if (!stamp || !isOld(folder.request())) return;
  if (const auto known = keyless_.find(folder.path);
      known != keyless_.end() && known->second == *stamp)
    return;
  if (isLocked(folder.lock())) return;
  auto request = folder.readRequest();
  if (!request.ok()) return;
  if (!request->has_tls()) {
    keyless_[folder.path] = *stamp;
    return;
  }
  request->clear_tls();
  const std::string cleaned = folder.request() + ".keyless";
  Status dropped = writeFileAtomically(cleaned, request->SerializeAsString(), 0600);
  if (dropped.ok()) {
    const UniqueFd lock(tryLock(folder.lock()));
    if (lock && stampOf(folder.request()) == stamp &&
        rename(cleaned.c_str(), folder.request().c_str()) != 0)
      dropped = systemError(errno, message("cannot rename {}", cleaned));
  }
  unlink(cleaned.c_str());
  if (!dropped.ok()) logWarning("{}", dropped.error().text());
}

void Sweeper::sweep() {
  const std::vector<RunFolder> runs = findRuns(workdir_, "");
  sweepSockets(workdir_, runs);
  for (const RunFolder& folder : runs) dropKeys(folder);
  std::erase_if(keyless_, [&](const auto& known) {
    return !std::ranges::binary_search(runs, known.first, {}, &RunFolder::path);
  });
  removeDeadLeases();
  std::error_code ignored;
  for (const fs::path& path : listFolder(workdir_.runs()))
    if (path.filename().string().starts_with(".removed-")) fs::remove_all(path, ignored);
}

void sweepWorkdir(const Workdir& workdir) { Sweeper(workdir).sweep(); }

void keepSwept(const Workdir& workdir, const std::stop_token& stop) {
  constexpr std::chrono::minutes kInterval{1};
  std::mutex mutex;
  std::condition_variable_any wake;
  std::unique_lock lock(mutex);
  Sweeper sweeper(workdir);
  do {
    sweeper.sweep();
  } while (!wake.wait_for(lock, stop, kInterval, [&] { return stop.stop_requested(); }));
}

}  // namespace lockstep::agent
