#include "agent/node/sweep.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <ctime>
#include <filesystem>
#include <map>
#include <mutex>
#include <vector>

#include "agent/base/run_folder.h"
#include "agent/base/unix_server.h"
#include "agent/host/version_lease.h"
#include "engine/base/list_folder.h"
#include "engine/base/remove_tree.h"
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

void sweepWorkdir(const Workdir& workdir) {
  sweepSockets(workdir, findRuns(workdir, ""));
  removeDeadLeases();
  for (const std::string& folder : {workdir.runs(), workdir.programs()})
    for (const fs::path& path : listFolder(folder))
      if (path.filename().string().starts_with(".removed-")) (void)removeTree(path);
}

void keepSwept(const Workdir& workdir, const std::stop_token& stop) {
  constexpr std::chrono::minutes kInterval{1};
  std::mutex mutex;
  std::condition_variable_any wake;
  std::unique_lock lock(mutex);
  do {
    sweepWorkdir(workdir);
  } while (!wake.wait_for(lock, stop, kInterval, [&] { return stop.stop_requested(); }));
}

}  // namespace lockstep::agent
