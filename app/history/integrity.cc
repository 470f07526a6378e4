#include "app/history/integrity.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <iterator>

#include "engine/base/list_folder.h"

namespace lockstep::app {
namespace {

constexpr std::string_view kMark = ".damaged-";
constexpr const char* kLogs[] = {"-wal", "-journal"};

std::string dateAndTime() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  return fmt::format("{:04}{:02}{:02}-{:02}{:02}{:02}", local.tm_year + 1900, local.tm_mon + 1,
                     local.tm_mday, local.tm_hour, local.tm_min, local.tm_sec);
}

}  // namespace

Result<std::unique_ptr<storage::Database>> openDatabase(const std::string& path,
                                                        const std::vector<std::string_view>& schema,
                                                        bool create) {
  storage::DatabaseOptions options;
  options.create = create;
  options.ifReadOnly = message("make it writable, or use another --home");
  options.ifNewer = message("use that version, or another --home");
  return storage::Database::open(path, schema, std::move(options));
}

bool hasLog(const std::string& path) {
  return std::any_of(std::begin(kLogs), std::end(kLogs), [&](const char* ending) {
    struct stat info {};
    return stat((path + ending).c_str(), &info) == 0 && info.st_size > 0;
  });
}

Result<std::string> setAside(const std::string& path) {
  std::string name = path + std::string(kMark) + dateAndTime();
  struct stat info {};
  for (int more = 2; stat(name.c_str(), &info) == 0; ++more)
    name = fmt::format("{}{}{}.{}", path, kMark, dateAndTime(), more);
  // The log is renamed first: a new database must not find the old log.
  for (const char* ending : kLogs)
    if (std::rename((path + ending).c_str(), (name + ending).c_str()) != 0 && errno != ENOENT)
      return systemError(errno, message("cannot rename {}{}", path, ending));
  unlink((path + "-shm").c_str());
  if (std::rename(path.c_str(), name.c_str()) != 0)
    return systemError(errno, message("cannot rename {}", path));
  return name;
}

std::vector<std::string> filesSetAside(const std::string& folder) {
  std::vector<std::string> out;
  for (const std::string& in : {folder, folder + "/runs"})
    for (const std::filesystem::path& path : listFolder(in))
      if (const std::string name = path.filename().string();
          name.find(kMark) != std::string::npos &&
          std::none_of(std::begin(kLogs), std::end(kLogs),
                       [&](const char* ending) { return name.ends_with(ending); }))
        out.push_back(path.string());
  std::sort(out.begin(), out.end());
  return out;
}

OpenLock::OpenLock(const std::string& path) {
  fd_ = open((path + ".open").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd_ < 0) return;  // read-only folder: nothing is renamed
  alone_ = flock(fd_, LOCK_EX | LOCK_NB) == 0;
  if (!alone_) share();
}

OpenLock::~OpenLock() {
  if (fd_ >= 0) close(fd_);
}

void OpenLock::share() {
  alone_ = false;
  // Waits while another process holds the exclusive lock to check the database.
  for (int tries = 0; fd_ >= 0 && flock(fd_, LOCK_SH | LOCK_NB) != 0 && tries < 500; ++tries)
    poll(nullptr, 0, 10);
}

}  // namespace lockstep::app
