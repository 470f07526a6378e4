// safetensors: named tensors in one file (https://huggingface.co/docs/safetensors): u64 header
// length, JSON header {name: {dtype, shape, data_offsets}, "__metadata__": {text: text}}, data.
//
// A file with checksums has the metadata {"checksums": "crc32c"} and ends with the tensor
// "checksums.crc32c" u32[n + 2]: the CRC-32C of the header, its length included, of each of the
// other n tensors in their order, and of the numbers before it. It is written in one go, and stays
// a safetensors file to all who know nothing of it.
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
  std::map<std::string, Entry> entries;  // but for the checksums
  std::map<std::string, std::string> metadata;
  bool verified = false;  // it has checksums, and they hold
  std::string storage;    // the whole file
  std::size_t dataOffset = 0;
  std::span<const std::byte> bytes(const Entry& entry) const {
    return std::as_bytes(std::span(storage)).subspan(dataOffset + entry.offset, entry.size);
  }
};

// Is given whole tensors, valid for the call.
using TensorSink = std::function<void(const TensorInfo& tensor, std::span<const std::byte> bytes)>;

enum class Checksums : std::uint8_t { kNone, kCrc32c };

// Written in the order given, atomically. Names must be unique. `bytes` is asked for each tensor
// in turn; what it gives is used before it is asked again.
using TensorBytes = std::function<Result<std::span<const std::byte>>(std::size_t index)>;
Status writeTensors(const std::string& path, const std::vector<TensorInfo>& tensors,
                    const std::map<std::string, std::string>& metadata, const TensorBytes& bytes,
                    Checksums checksums = Checksums::kNone);
// Errors: kDataLoss naming the file and what is wrong with it, and the tensor whose checksum does
// not hold; kNotFound; kResourceExhausted. Every offset is checked.
Result<TensorFile> readTensors(const std::string& path);

}  // namespace lockstep::runtime
