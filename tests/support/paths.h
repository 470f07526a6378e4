// Where a test program finds files of the source tree and of its build. Found at run time, so that
// the objects of tests are the same wherever the tree lies, which lets a compiler cache share them.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

namespace lockstep::test {

// Of the build that this program is of: it lies in its folder bin.
inline std::string buildPath(const std::string& below) {
  static const std::filesystem::path build =
      std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path();
  return build / below;
}

inline std::string sourcePath(const std::string& below) {
  static const std::filesystem::path source = [] {
    const std::string entry = "CMAKE_HOME_DIRECTORY:INTERNAL=";
    std::ifstream cache(buildPath("CMakeCache.txt"));
    std::string line;
    while (std::getline(cache, line))
      if (line.starts_with(entry)) return line.substr(entry.size());
    return std::string();
  }();
  return source / below;
}

}  // namespace lockstep::test
