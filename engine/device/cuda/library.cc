#include "engine/device/cuda/library.h"
#include "engine/base/list_folder.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <sstream>
#include <vector>

namespace lockstep::device::cuda {
namespace {

namespace fs = std::filesystem;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

// "" stands for the loader's search path.
std::vector<std::string> folders() {
  std::vector<std::string> out;
  std::istringstream given(environment("LOCKSTEP_CUDA_LIBRARIES"));
  for (std::string folder; std::getline(given, folder, ':');)
    if (!folder.empty()) out.push_back(folder);
  out.emplace_back();
  if (const std::string home = environment("CUDA_HOME"); !home.empty())
    out.push_back(home + "/lib64");
  out.emplace_back("/usr/local/cuda/lib64");
  std::vector<std::string> versions;
  for (const auto& entry : listFolder("/usr/local"))
    if (entry.filename().string().starts_with("cuda-"))
      versions.push_back(entry.string() + "/lib64");
  std::sort(versions.begin(), versions.end(), std::greater<>());
  out.insert(out.end(), versions.begin(), versions.end());
  return out;
}

std::string fileOf(void* handle) {
  link_map* map = nullptr;
  return dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr ? map->l_name : "";
}

}  // namespace

OpenLibrary openLibrary(const std::string& file) {
  OpenLibrary out;
  for (const std::string& folder : folders()) {
    const std::string path = folder.empty() ? file : folder + "/" + file;
    std::error_code ignored;
    if (!folder.empty() && !fs::exists(path, ignored)) continue;
    out.handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (out.handle != nullptr) {
      out.path = fileOf(out.handle);
      out.problem.clear();
      return out;
    }
    out.problem = dlerror();
    // A file that exists but cannot be loaded is more informative than one not found.
    if (!folder.empty()) return out;
  }
  return out;
}

}  // namespace lockstep::device::cuda
