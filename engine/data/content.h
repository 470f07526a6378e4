// The content of data files, plain or packed by gzip, read piece by piece.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "engine/base/status.h"

namespace lockstep::data {

inline constexpr std::size_t kLargestContent = std::size_t{4} << 30;  // bytes, unpacked

// Takes the next bytes; an error ends the reading.
using Sink = std::function<Status(std::string_view bytes)>;

// Reads a file once: its content to `sink`. Returns the SHA-256 of the file as it is, packed or
// not, where that is asked for, else nothing. Refuses what is no regular file: a FIFO would be
// waited for, for ever.
Result<std::string> readContent(const std::string& path, bool hashed, const Sink& sink);

struct Content {
  std::string bytes, sha256;
};
// The whole of it, where memory holds that.
Result<Content> readWholeContent(const std::string& path, bool hashed);

// kDataLoss about the file.
Error dataLoss(const std::string& path, std::string why);

}  // namespace lockstep::data
