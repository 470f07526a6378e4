// Reads and durably writes small files. Errors: systemError with the path in `what`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "engine/base/status.h"

namespace lockstep {

// Errors: kResourceExhausted for a file that memory cannot hold; files larger than `limit` are
// refused.
Result<std::string> readFile(const std::string& path, std::size_t limit = std::size_t{1} << 30);
// Writes a temporary file in the same folder, syncs it, renames it over `path` and syncs the
// folder. A device or a pipe is written to in place; of a symbolic link, the target is replaced.
Status writeFileAtomically(const std::string& path, std::string_view bytes, int mode = 0644);
// Whether a file that is written stays in memory for whoever reads it next. Without it, a large
// file takes no memory and less processor time (O_DIRECT, where the file system has it).
enum class PageCache : std::uint8_t { kUse, kAvoid };
// Whether a file outlives a crash of the machine. It is then flushed to the disk, which takes time.
enum class Durability : std::uint8_t { kSynced, kNone };
// Streaming variant: `fill` receives a function that appends to the file. On error no file is left
// behind.
using Append = std::function<Status(std::string_view bytes)>;
Status writeFileAtomically(const std::string& path,
                           const std::function<Status(const Append&)>& fill, int mode = 0644,
                           PageCache cache = PageCache::kUse,
                           Durability durability = Durability::kSynced);

}  // namespace lockstep
