#include "app/core/home.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

namespace lockstep::app {

Status makeFolders(const std::string& path, int mode) {
  for (std::size_t at = 1; at != std::string::npos;) {
    at = path.find('/', at);
    const std::string part = path.substr(0, at);
    if (::mkdir(part.c_str(), static_cast<mode_t>(mode)) != 0 && errno != EEXIST) {
      const int cause = errno;
      struct stat there {};
      if (::stat(part.c_str(), &there) != 0) {
        Error error = systemError(cause, message("cannot create the folder {}", part));
        error.next = "choose another folder with --home";
        return error;
      }
    }
    if (at != std::string::npos) ++at;
  }
  struct stat made {};
  if (::stat(path.c_str(), &made) != 0 || !S_ISDIR(made.st_mode)) {
    Error error = makeError(Code::kFailedPrecondition, "{} is not a folder", path);
    error.next = "choose another folder with --home";
    return error;
  }
  return {};
}

std::string absolutePath(const std::string& path, const std::string& folder) {
  if (path.empty() || path[0] == '/') return path;
  if (path[0] == '~' && (path.size() == 1 || path[1] == '/')) {
    const char* home = std::getenv("HOME");
    if (home != nullptr && *home != 0) return home + path.substr(1);
  }
  std::string base = folder;
  if (base.empty() || base[0] != '/') {
    char* here = ::get_current_dir_name();
    base = std::string(here == nullptr ? "" : here) + (base.empty() ? "" : "/" + base);
    std::free(here);
  }
  std::string rest = path;
  while (rest.rfind("./", 0) == 0) rest.erase(0, 2);
  return base + "/" + rest;
}

Result<std::string> homeFolder(const std::string& flag) {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  std::string root = flag;
  if (root.empty()) root = variable("LOCKSTEP_HOME");
  if (root.empty() && !variable("XDG_DATA_HOME").empty()) {
    root = variable("XDG_DATA_HOME") + "/lockstep";
  }
  if (root.empty() && !variable("HOME").empty()) {
    root = variable("HOME") + "/.local/share/lockstep";
  }
  if (root.empty()) {
    Error error = makeError(Code::kFailedPrecondition, "there is no home folder");
    error.why = "neither LOCKSTEP_HOME nor HOME is set";
    error.next = "give a folder with --home";
    return error;
  }
  root = absolutePath(root, "");
  while (root.size() > 1 && root.back() == '/') root.pop_back();
  return root;
}

Result<Home> openHome(const std::string& flag) {
  LOCKSTEP_ASSIGN(const std::string root, homeFolder(flag));
  LOCKSTEP_TRY(makeFolders(root, 0700));
  return Home{root};
}

}  // namespace lockstep::app
