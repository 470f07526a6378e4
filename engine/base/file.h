// Small files, whole and durable. Errors: systemError with the path in `what`.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "engine/base/status.h"

namespace lockstep {

// Refuses files past `limit` bytes, and those that memory does not hold (kResourceExhausted).
Result<std::string> readFile(const std::string& path, std::size_t limit = std::size_t{1} << 30);
// Temporary name in the same folder, fsync, rename, fsync of the folder. A device or a pipe stays,
// and is written to; of a link what it leads to is replaced.
Status writeFileAtomically(const std::string& path, std::string_view bytes, int mode = 0644);
// The same piece by piece: `fill` is given what appends to the file. On an error no file stays.
using Append = std::function<Status(std::string_view bytes)>;
Status writeFileAtomically(const std::string& path,
                           const std::function<Status(const Append&)>& fill, int mode = 0644);

}  // namespace lockstep
