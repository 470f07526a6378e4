#include "engine/base/below.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <climits>

#include "engine/base/utf8.h"

namespace lockstep {
namespace {

// A folder of more folders in each other could not be removed with few descriptors.
constexpr std::size_t kMostParts = 128;

}  // namespace

std::vector<std::string_view> partsOf(std::string_view path) {
  std::vector<std::string_view> out;
  for (;;) {
    const std::size_t slash = path.find('/');
    out.push_back(path.substr(0, slash));
    if (slash == std::string_view::npos) return out;
    path.remove_prefix(slash + 1);
  }
}

Message whyNotBelow(std::string_view path) {
  const std::vector<std::string_view> parts = partsOf(path);
  for (const std::string_view part : parts)
    if (part.empty() || part == "." || part == ".." || part.find('\0') != part.npos)
      return "its path is absolute, or has a part that is empty, . or .., or a zero byte";
  if (path.size() >= PATH_MAX || parts.size() > kMostParts) return "its path is too long";
  return {};
}

Result<UniqueFd> openFolderOf(int root, std::string_view path) {
  constexpr int kFolder = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  const std::vector<std::string_view> parts = partsOf(path);
  UniqueFd at(openat(root, ".", kFolder));
  for (std::size_t i = 0; at && i + 1 < parts.size(); ++i) {
    const std::string name(parts[i]);
    if (mkdirat(at.get(), name.c_str(), 0700) != 0 && errno != EEXIST)
      return systemError(errno, message("cannot create {}", validUtf8(name)));
    at = UniqueFd(openat(at.get(), name.c_str(), kFolder));
  }
  if (!at) return systemError(errno, message("cannot open the folder of {}", validUtf8(path)));
  return at;
}

}  // namespace lockstep
