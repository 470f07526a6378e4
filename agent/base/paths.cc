#include "agent/base/paths.h"

#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <filesystem>

#include "engine/base/file.h"
#include "engine/base/file_system.h"
#include "engine/base/hash.h"

namespace lockstep::agent {
namespace {

std::string home() {
  if (const char* value = std::getenv("HOME"); value != nullptr && *value == '/') return value;
  const passwd* entry = getpwuid(getuid());
  return entry != nullptr ? entry->pw_dir : "/";
}

Result<std::string> realPath(const std::string& path) {
  std::array<char, PATH_MAX> buffer{};
  if (realpath(path.c_str(), buffer.data()) == nullptr)
    return systemError(errno, message("cannot resolve {}", path));
  return std::string(buffer.data());
}

}  // namespace

bool isPlainName(std::string_view name) {
  if (name.empty() || name.size() > 128 || name.front() == '.') return false;
  for (char c : name) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '.' || c == '_' || c == '-';
    if (!plain) return false;
  }
  return true;
}

Status makeFolders(const std::string& path) {
  for (std::size_t at = 1; at != std::string::npos;) {
    at = path.find('/', at + 1);
    const std::string part = path.substr(0, at);
    if (mkdir(part.c_str(), 0700) != 0 && errno != EEXIST)
      return systemError(errno, message("cannot create the folder {}", part));
  }
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return systemError(errno, message("cannot use {}", path));
  if (!S_ISDIR(info.st_mode)) return systemError(ENOTDIR, message("cannot use {}", path));
  return {};
}

Status makePrivateFolder(const std::string& path) {
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
    return systemError(errno, message("cannot create the folder {}", path));
  struct stat info {};
  if (lstat(path.c_str(), &info) != 0) return systemError(errno, message("cannot use {}", path));
  if (!S_ISDIR(info.st_mode) || info.st_uid != geteuid()) {
    Error error = makeError(Code::kPermissionDenied, "cannot use {} for sockets", path);
    error.why = "it is not a folder of this user";
    error.next = "remove it, or choose another workdir";
    return error;
  }
  if ((info.st_mode & 077) != 0 && chmod(path.c_str(), 0700) != 0)
    return systemError(errno, message("cannot restrict access to {}", path));
  return {};
}

Result<Workdir> openWorkdir(std::string_view given) {
  std::string path(given.empty() ? "~/.lockstep" : given);
  if (path == "~" || path.starts_with("~/")) path = home() + path.substr(1);
  if (path.front() != '/') path = std::filesystem::current_path().string() + "/" + path;
  LOCKSTEP_TRY(makeFolders(path));
  Workdir out;
  LOCKSTEP_ASSIGN(out.path, realPath(path));
  if (access(out.path.c_str(), W_OK | X_OK) != 0)
    return systemError(errno, message("cannot write in the workdir {}", out.path));
  out.runtime = out.path + "/sock";
  if (out.runtime.size() + 30 > kMaxSocketPath || !isLocalFilesystem(out.path)) {
    // Not below XDG_RUNTIME_DIR: that is removed at the user's last logout, and runs go on.
    out.runtime = fmt::format("/tmp/lockstep-{}-{}", geteuid(), sha256Hex(out.path).substr(0, 12));
  }
  LOCKSTEP_TRY(makePrivateFolder(out.runtime));
  LOCKSTEP_TRY(makeFolders(out.runs()));
  return out;
}

std::string hostName() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

std::string executablePath() {
  std::array<char, PATH_MAX> buffer{};
  const ssize_t count = readlink("/proc/self/exe", buffer.data(), buffer.size() - 1);
  return count > 0 ? std::string(buffer.data(), static_cast<std::size_t>(count)) : std::string();
}

std::string versionFolder() {
  const std::string path = executablePath();
  constexpr std::string_view kVersions = "/versions/";
  const std::size_t at = path.rfind(kVersions);
  if (at == std::string::npos) return {};
  const std::size_t begin = at + kVersions.size(), end = path.find('/', begin);
  return end != std::string::npos && end > begin ? path.substr(0, end) : std::string();
}

std::string bundleVersion(const std::string& cacheFolder) {
  const std::string path = executablePath();
  if (const std::string folder = versionFolder(); !folder.empty())
    return folder.substr(folder.rfind('/') + 1);
  struct stat info {};
  if (stat("/proc/self/exe", &info) != 0) return "unknown";
  const std::string key = fmt::format("{} {} {}.{} {}\n", path, info.st_size, info.st_mtim.tv_sec,
                                      info.st_mtim.tv_nsec, info.st_ino);
  const std::string cache = cacheFolder + "/version";
  if (auto kept = readFile(cache, 1 << 16); kept.ok() && kept->starts_with(key))
    return kept->substr(key.size());
  auto hash = sha256File("/proc/self/exe");
  if (!hash.ok()) return "unknown";
  std::string version = hash->substr(0, 12);
  (void)writeFileAtomically(cache, key + version, 0600);
  return version;
}

}  // namespace lockstep::agent
