// safetensors: named tensors in one file (https://huggingface.co/docs/safetensors): u64 header
// length, JSON header {name: {dtype, shape, data_offsets}, "__metadata__": {text: text}}, data.
//
// A file with checksums has the metadata {"checksums": "crc32c/1048576"} and ends with the tensor
// "checksums.crc32c" u32[n]: the CRC-32C of the header including its length, of each block of
// 1048576 bytes of each of the other tensors in order, and of the preceding checksums. The last
// block of a tensor may be shorter; a tensor of no bytes has one. The file is written in one pass,
// and remains a valid safetensors file to other readers. With {"checksums": "crc32c"}, in files of
// earlier versions, each tensor is one block.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "engine/base/dtype.h"
#include "engine/base/status.h"
#include "engine/base/unique_fd.h"

namespace lockstep::weights {

// Reads single tensors of a file. Errors of open() and read(): kDataLoss naming the file, the
// defect and the tensor and block whose checksum does not match; kNotFound; kPermissionDenied.
class TensorReader {
 public:
  struct Entry {
    DType dtype = DType::kF32;
    Shape shape;
    std::size_t offset = 0, size = 0;  // bytes of the data
    std::size_t firstSum = 0;          // its first block's, of the file's checksums
  };
  using Entries = std::map<std::string, Entry>;  // without the checksums
  // Validates every offset and the header's checksum.
  static Result<TensorReader> open(const std::string& path);
  const std::string& path() const { return path_; }
  const Entries& entries() const { return entries_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  bool hasChecksums() const { return !sums_.empty(); }
  bool verifiesRanges() const { return blockBytes_ > 0; }
  std::size_t dataOffset() const { return dataOffset_; }
  // Reads a tensor of entries() and verifies its checksum; `out` has its size.
  Status read(const std::string& name, std::span<std::byte> out) const;
  // Reads bytes of a tensor of entries() from `begin` on. If the reader verifiesRanges(), verifies
  // each block that they are in.
  Status readRange(const std::string& name, std::size_t begin, std::span<std::byte> out) const;

 private:
  Status readAt(std::size_t offset, std::span<std::byte> out) const;
  Status readHeader(std::size_t fileSize);
  Status readSums(const std::vector<std::pair<std::string, Entry>>& placed);
  Status checkBlock(const std::string& name, const Entry& entry, std::size_t number,
                    std::span<const std::byte> block) const;

  std::string path_;
  UniqueFd file_;
  std::string header_;  // with its length
  Entries entries_;
  std::map<std::string, std::string> metadata_;
  std::vector<std::uint32_t> sums_;  // of all tensors' blocks; empty: the file has none
  std::size_t blockBytes_ = 0;       // 0: each tensor is one block
  std::size_t dataOffset_ = 0;
};

// The content of such a file.
struct TensorFile {
  using Entry = TensorReader::Entry;
  TensorReader::Entries entries;
  std::map<std::string, std::string> metadata;
  bool verified = false;  // it has checksums, and they match
  std::size_t dataOffset = 0;
  std::vector<std::byte> data;
  std::span<const std::byte> bytes(const Entry& entry) const {
    return std::span(data).subspan(entry.offset, entry.size);
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
                    Checksums checksums = Checksums::kNone, int mode = 0644);
// Errors: as for TensorReader; kResourceExhausted.
Result<TensorFile> readTensors(const std::string& path);

}  // namespace lockstep::weights
