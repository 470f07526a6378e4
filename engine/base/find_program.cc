#include "engine/base/find_program.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace lockstep {
namespace {

bool isExecutable(const std::string& path) { return ::access(path.c_str(), X_OK) == 0; }

}  // namespace

std::string findProgram(const std::string& name, std::string_view more) {
  if (name.find('/') != std::string::npos) return isExecutable(name) ? name : "";
  const char* variable = std::getenv("PATH");
  std::string folders = variable == nullptr ? "" : variable;
  folders.append(":").append(more);
  for (std::size_t at = 0; at <= folders.size();) {
    const std::size_t end = std::min(folders.find(':', at), folders.size());
    const std::string path = folders.substr(at, end - at) + "/" + name;
    if (folders[at] == '/' && isExecutable(path)) return path;
    at = end + 1;
  }
  return {};
}

}  // namespace lockstep
