// Decompression of files that come in pieces: plain, gzip, or zstd.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "engine/base/status.h"

namespace lockstep::data {

inline constexpr std::size_t kLargestContent = std::size_t{4} << 30;  // decompressed bytes
inline constexpr std::size_t kPackedHead = 4;  // bytes that tell how a file is compressed

// Receives the next bytes; an error ends the reading.
using Sink = std::function<Status(std::string_view bytes)>;

enum class Packing { kNone, kGzip, kZstd };
// `head`: the file's first kPackedHead bytes, or all.
Packing packingOf(std::string_view head);

// Decompresses all members of gzip, or frames of zstd.
class Unpacker {
 public:
  virtual ~Unpacker() = default;
  // Adds the next bytes of the file, and passes on what they unpack to. Errors: the sink's;
  // kDataLoss; kResourceExhausted beyond kLargestContent, or for a zstd window beyond 128 MiB.
  virtual Status add(std::string_view packed) = 0;
  // Returns kDataLoss if the file ends too early.
  virtual Status end() const = 0;
};
// The sink receives pieces of up to `largest` bytes, of a plain file those that are added. `path`
// and `sink` must outlive the unpacker.
Result<std::unique_ptr<Unpacker>> makeUnpacker(Packing packing, const std::string& path,
                                               const Sink& sink, std::size_t largest);

}  // namespace lockstep::data
