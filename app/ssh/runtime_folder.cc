#include "app/ssh/runtime_folder.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string_view>

namespace lockstep::app {

Result<std::string> runtimeFolder() {
  const char* given = ::getenv("XDG_RUNTIME_DIR");
  std::string folder = fmt::format("/tmp/lockstep-{}", ::getuid());
  // A long XDG_RUNTIME_DIR would make paths that do not fit into a socket's address.
  if (given && given[0] == '/' && std::string_view(given).size() <= 60)
    folder = std::string(given) + "/lockstep";
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    return systemError(errno, message("cannot create {}", folder));
  struct stat info {};
  if (::lstat(folder.c_str(), &info) != 0)
    return systemError(errno, message("cannot look at {}", folder));
  if (!S_ISDIR(info.st_mode) || info.st_uid != ::getuid() || (info.st_mode & 077) != 0) {
    Error error = makeError(Code::kPermissionDenied, "{} cannot be used for sockets", folder);
    error.why = "it is not a folder of yours that only you can enter";
    error.next = message("remove it, or make it yours with mode 0700");
    return error;
  }
  return folder;
}

}  // namespace lockstep::app
