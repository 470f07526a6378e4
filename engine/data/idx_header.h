// The header of an IDX file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"

namespace lockstep::data {

struct IdxHeader {
  std::vector<std::int64_t> dimensions;
  std::size_t offset = 0;  // offset of the first element
};
inline constexpr std::size_t kLongestHeader = 4 + 4 * 255;

// Parses the header of a file that begins with `head` and decompresses to `size` bytes if `whole`.
// Errors: kDataLoss that names the file.
Result<IdxHeader> parseHeader(const std::string& path, std::string_view head, std::uint64_t size,
                              bool whole = true);

}  // namespace lockstep::data
