// Reads data files, plain or gzip, piece by piece.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "engine/base/progress.h"
#include "engine/base/status.h"

namespace lockstep::data {

inline constexpr std::size_t kLargestContent = std::size_t{4} << 30;  // decompressed bytes

// Receives the next bytes; an error ends the reading.
using Sink = std::function<Status(std::string_view bytes)>;

// Streams the file's content to `sink`. Returns the SHA-256 of the file as stored (compressed or
// not) if `hashed`, else "". Rejects anything but regular files: a FIFO could block for ever.
// `progress` counts the bytes as stored.
Result<std::string> readContent(const std::string& path, bool hashed, const Sink& sink,
                                const Progress& progress = {});

struct Content {
  std::string bytes, sha256;
};
// Reads the whole content into memory.
Result<Content> readWholeContent(const std::string& path, bool hashed,
                                 const Progress& progress = {});

// Makes a kDataLoss error about the file.
Error dataLoss(const std::string& path, Message why);

}  // namespace lockstep::data
