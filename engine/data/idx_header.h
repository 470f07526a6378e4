// The header of an IDX file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/dtype.h"
#include "engine/base/status.h"

namespace lockstep::data {

struct IdxHeader {
  std::vector<std::int64_t> dimensions;
  std::size_t offset = 0;  // offset of the first element
  // 1, or 4 for big-endian signed numbers, which only labels (one dimension) have
  int elementBytes = 1;
  // of all elements
  std::uint64_t bytes() const {
    return static_cast<std::uint64_t>(elementCount(dimensions) * elementBytes);
  }
};
inline constexpr std::size_t kLongestHeader = 4 + 4 * 255;

// Parses the header of a file that begins with `head` and decompresses to `size` bytes if `whole`.
// Errors: kDataLoss that names the file.
Result<IdxHeader> parseHeader(const std::string& path, std::string_view head, std::uint64_t size,
                              bool whole = true);
// The header of a file with these dimensions: parseHeader() backwards.
std::string idxHeader(const std::vector<std::int64_t>& dimensions, int elementBytes);

// Returns label `i` of labels with this many bytes each. What is no label of any model, a negative
// number, becomes the greatest int.
int idxLabel(const char* labels, int elementBytes, std::int64_t i);

}  // namespace lockstep::data
