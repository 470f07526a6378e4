#include "agent/host/installed_program.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace lockstep::agent {

std::string findInstalledProgram(const std::string& name) {
  const char* variable = std::getenv("PATH");
  std::string folders = variable == nullptr ? "" : variable;
  folders += ":/usr/local/bin:/usr/bin";
  for (std::size_t at = 0; at <= folders.size();) {
    const std::size_t end = std::min(folders.find(':', at), folders.size());
    const std::string path = folders.substr(at, end - at) + "/" + name;
    if (path.starts_with('/') && access(path.c_str(), X_OK) == 0) return path;
    at = end + 1;
  }
  return {};
}

}  // namespace lockstep::agent
