// Lists folders without exceptions.
#pragma once

#include <filesystem>
#include <system_error>
#include <vector>

namespace lockstep {

// Returns the paths of a folder's entries, in no order: all that could be read. A loop over a
// std::filesystem::directory_iterator would throw where the disk fails between two entries.
inline std::vector<std::filesystem::path> listFolder(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> out;
  std::error_code failed;
  for (std::filesystem::directory_iterator entry(folder, failed), end; !failed && entry != end;
       entry.increment(failed))
    out.push_back(entry->path());
  return out;
}

}  // namespace lockstep
