// safetensors: named tensors in one file (https://huggingface.co/docs/safetensors): u64 header
// length, JSON header {name: {dtype, shape, data_offsets}, "__metadata__": {text: text}}, data.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "engine/base/dtype.h"
#include "engine/base/status.h"

namespace lockstep::runtime {

struct TensorRef {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  std::span<const std::byte> bytes;
};

struct TensorFile {
  struct Entry {
    DType dtype = DType::kF32;
    Shape shape;
    std::size_t offset = 0, size = 0;  // bytes in `data`
  };
  std::map<std::string, Entry> entries;
  std::map<std::string, std::string> metadata;
  std::string storage;                 // the whole file
  std::size_t dataOffset = 0;
  std::span<const std::byte> bytes(const Entry& entry) const {
    return std::as_bytes(std::span(storage)).subspan(dataOffset + entry.offset, entry.size);
  }
};

// Written in the order given, atomically. Names must be unique.
Status writeTensors(const std::string& path, const std::vector<TensorRef>& tensors,
                    const std::map<std::string, std::string>& metadata);
// Errors: kDataLoss naming the file and what is wrong with it; every offset is checked.
Result<TensorFile> readTensors(const std::string& path);

}  // namespace lockstep::runtime
