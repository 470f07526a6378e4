// Removes folders that programs have filled.
#pragma once

#include <filesystem>
#include <system_error>

namespace lockstep {

// Removes what is there with all that is in it, also in folders that may not be written to, as
// archives have them. Symbolic links are not followed. What another removes at the same time is no
// error.
inline std::error_code removeTree(const std::filesystem::path& path) {
  namespace fs = std::filesystem;
  std::error_code failed, ignored;
  fs::remove_all(path, failed);
  if (failed == std::errc::permission_denied && !fs::is_symlink(path, ignored)) {
    const auto allow = [&ignored](const fs::path& folder) {
      fs::permissions(folder, fs::perms::owner_all, fs::perm_options::add, ignored);
    };
    allow(path);
    for (fs::recursive_directory_iterator entry(path, failed), end; !failed && entry != end;
         entry.increment(failed))
      if (fs::is_directory(entry->symlink_status(ignored))) allow(entry->path());
    fs::remove_all(path, failed);
  }
  return failed == std::errc::no_such_file_or_directory ? std::error_code() : failed;
}

}  // namespace lockstep
