#include "agent/sweep.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <filesystem>

#include "agent/run_folder.h"
#include "agent/unix_server.h"
#include "engine/base/log.h"

namespace lockstep::agent {
namespace {

namespace fs = std::filesystem;

bool isOld(const std::string& path) {
  constexpr std::time_t kOld = 60;
  struct stat info {};
  return lstat(path.c_str(), &info) == 0 && info.st_mtime + kOld < std::time(nullptr);
}

}  // namespace

void sweepWorkdir(const Workdir& workdir) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(workdir.runtime, ignored)) {
    const std::string path = entry.path().string();
    if (entry.path().extension() != ".sock" || !isOld(path)) continue;
    const auto fd = connectUnix(path, nullptr);
    if (fd.ok()) close(*fd);
    else if (fd.error().why == systemError(ECONNREFUSED, "").why) unlink(path.c_str());
  }
  for (const auto& entry : fs::directory_iterator(workdir.runs(), ignored))
    if (entry.path().filename().string().starts_with(".removed-")) fs::remove_all(entry.path(), ignored);
  for (const RunFolder& folder : findRuns(workdir, "")) {
    if (!isOld(folder.request()) || isLocked(folder.lock())) continue;
    if (Status dropped = folder.dropKeys(); !dropped.ok()) logWarning("{}", dropped.error().text());
  }
}

}  // namespace lockstep::agent
