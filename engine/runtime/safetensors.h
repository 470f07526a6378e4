// safetensors: named tensors in one file (https://huggingface.co/docs/safetensors): u64 header
// length, JSON header {name: {dtype, shape, data_offsets}, "__metadata__": {text: text}}, data.
//
// A file with checksums has the metadata {"checksums": "crc32c"} and ends with the tensor
// "checksums.crc32c" u32[n + 2]: the CRC-32C of the header including its length, of each of the
// other n tensors in order, and of the preceding checksums. It is written in one pass, and remains
// a valid safetensors file to other readers.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "engine/base/dtype.h"
#include "engine/base/status.h"

namespace lockstep::runtime {

struct TensorInfo {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  std::int64_t bytes() const {
    return elementCount(shape) * static_cast<std::int64_t>(sizeOf(dtype));
  }
};

struct TensorFile {
  struct Entry {
    DType dtype = DType::kF32;
    Shape shape;
    std::size_t offset = 0, size = 0;  // bytes in `data`
  };
  std::map<std::string, Entry> entries;  // without the checksums
  std::map<std::string, std::string> metadata;
  bool verified = false;  // it has checksums, and they match
  std::string storage;    // the whole file
  std::size_t dataOffset = 0;
  std::span<const std::byte> bytes(const Entry& entry) const {
    return std::as_bytes(std::span(storage)).subspan(dataOffset + entry.offset, entry.size);
  }
};

// Receives whole tensors, valid during the call.
using TensorSink = std::function<void(const TensorInfo& tensor, std::span<const std::byte> bytes)>;

enum class Checksums : std::uint8_t { kNone, kCrc32c };

// Writes tensors in the given order, atomically. Names must be unique. `bytes` is called for each
// tensor in turn; its result is used before the next call.
using TensorBytes = std::function<Result<std::span<const std::byte>>(std::size_t index)>;
Status writeTensors(const std::string& path, const std::vector<TensorInfo>& tensors,
                    const std::map<std::string, std::string>& metadata, const TensorBytes& bytes,
                    Checksums checksums = Checksums::kNone);
// Errors: kDataLoss naming the file, the defect and the tensor whose checksum does not match;
// kNotFound; kResourceExhausted. Every offset is validated.
Result<TensorFile> readTensors(const std::string& path);

}  // namespace lockstep::runtime
