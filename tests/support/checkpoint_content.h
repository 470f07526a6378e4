// The content of a checkpoint, independent of its sharding.
#pragma once

#include <cstring>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "engine/base/file.h"
#include "engine/weights/checkpoint_files.h"

namespace lockstep::test {

inline weights::Manifest manifestIn(const std::string& checkpoint) {
  const std::string path = checkpoint + "/" + std::string(weights::kManifestFile);
  const auto text = readFile(path);
  if (text.ok()) return weights::parseManifest(*text, path).value();
  return weights::manifestOf(
      weights::TensorReader::open(fmt::format("{}/{}", checkpoint, weights::kStateFile)).value());
}

// Returns the manifest, if any, and all files of tensors.
inline std::vector<std::string> filesIn(const std::string& checkpoint) {
  std::vector<std::string> out;
  const std::string path = checkpoint + "/" + std::string(weights::kManifestFile);
  if (readFile(path).ok()) out.push_back(path);
  for (const auto& [file, pieces] : manifestIn(checkpoint).contents)
    out.push_back(checkpoint + "/" + file);
  return out;
}

struct CheckpointTensor {
  TensorInfo info;
  std::vector<std::byte> bytes;
};

inline std::map<std::string, CheckpointTensor> tensorsIn(const std::string& checkpoint) {
  std::map<std::string, CheckpointTensor> out;
  const weights::Manifest manifest = manifestIn(checkpoint);
  for (const auto& [name, info] : manifest.tensors)
    out[name] = {info, std::vector<std::byte>(static_cast<std::size_t>(info.bytes()))};
  for (const auto& [file, pieces] : manifest.contents) {
    const weights::TensorFile content = weights::readTensors(checkpoint + "/" + file).value();
    for (const plan::Piece& piece : pieces) {
      CheckpointTensor& whole = out.at(piece.tensor.name);
      plan::copyCommon(piece, content.bytes(content.entries.at(piece.stored().name)).data(),
                       {whole.info, 0, 0, 1, 0, elementCount(whole.info.shape)},
                       whole.bytes.data());
    }
  }
  return out;
}

// Changes an f32 tensor, and its checksums.
inline void changeTensor(const std::string& checkpoint, const std::string& name,
                         const std::function<void(std::span<float>)>& change) {
  CheckpointTensor whole = tensorsIn(checkpoint).at(name);
  change({reinterpret_cast<float*>(whole.bytes.data()), whole.bytes.size() / sizeof(float)});
  const plan::Piece all{whole.info, 0, 0, 1, 0, elementCount(whole.info.shape)};
  for (const auto& [file, pieces] : manifestIn(checkpoint).contents) {
    const std::string path = checkpoint + "/" + file;
    weights::TensorFile content = weights::readTensors(path).value();
    for (const plan::Piece& piece : pieces)
      if (piece.tensor.name == name) {
        const auto& entry = content.entries.at(piece.stored().name);
        plan::copyCommon(all, whole.bytes.data(), piece, content.data.data() + entry.offset);
      }
    std::vector<TensorInfo> tensors;
    std::vector<weights::TensorFile::Entry> entries;
    for (const auto& [tensor, entry] : content.entries) {
      tensors.push_back({tensor, entry.dtype, entry.shape});
      entries.push_back(entry);
    }
    const Status written = weights::writeTensors(
        path, tensors, content.metadata,
        [&](std::size_t i) -> Result<std::span<const std::byte>> {
          return content.bytes(entries[i]);
        },
        weights::Checksums::kCrc32c);
    LOCKSTEP_CHECK(written.ok());
  }
}

}  // namespace lockstep::test
