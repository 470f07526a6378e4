// safetensors files, with and without checksums: every tensor of what is accepted lies within, and
// is read as weights.
#include "engine/weights/files.h"

#include "tests/fuzz/fuzz.h"

namespace lockstep::fuzz {

std::vector<std::string> seeds() {
  const std::vector<TensorInfo> tensors = {{"params/a", DType::kF32, {2, 3}},
                                           {"b", DType::kU8, {5}},
                                           {"c", DType::kBf16, {}},
                                           {"empty", DType::kI64, {0, 4}}};
  const std::string data(24, '\x3f'), path = scratchFolder() + "/seed";
  std::vector<std::string> out;
  for (const auto sums : {weights::Checksums::kNone, weights::Checksums::kCrc32c}) {
    const auto bytes = [&](std::size_t i) -> Result<std::span<const std::byte>> {
      return std::as_bytes(std::span(data)).first(static_cast<std::size_t>(tensors[i].bytes()));
    };
    LOCKSTEP_CHECK(weights::writeTensors(path, tensors, {{"step", "3"}}, bytes, sums).ok());
    out.push_back(fileBytes(path));
  }
  return out;
}

}  // namespace lockstep::fuzz

namespace {

using namespace lockstep;

void readAsWeights(const std::string& path) {
  weights::Names names;
  names.stored["b"] = {"b"};
  names.stored["a"] = {"params/a", weights::Layout::kTransposed};
  for (const auto& [known, shape] : {std::pair(weights::Names(), Shape{2, 3}), {names, {3, 2}}}) {
    const std::map<std::string, TensorInfo> wanted{{"params/a", {"params/a", DType::kF64, shape}},
                                                   {"params/c", {"params/c", DType::kF32, {}}}};
    const auto file = weights::WeightsFile::open(path, known, wanted, true);
    if (!file.ok()) continue;
    for (const auto& [source, pieces] : file->manifest().contents)
      for (const weights::Piece& piece : pieces) {
        const auto bytes = file->read(piece);
        LOCKSTEP_CHECK(!bytes.ok() || std::ssize(*bytes) == piece.bytes());
      }
  }
  const auto model = weights::ModelWeights::open(path);
  if (!model.ok()) return;
  for (const auto& [name, tensor] : model->tensors()) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(tensor.bytes()));
    (void)model->read(name, bytes);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace lockstep;
  const std::string path = fuzz::scratchFile("tensors", fuzz::textOf(bytes, size));
  readAsWeights(path);
  const auto file = weights::readTensors(path);
  if (!file.ok()) return 0;
  unsigned sum = 0;
  for (const auto& [name, entry] : file->entries) {
    LOCKSTEP_CHECK(elementCount(entry.shape) * static_cast<std::int64_t>(sizeOf(entry.dtype)) ==
                   static_cast<std::int64_t>(entry.size));
    for (const std::byte byte : file->bytes(entry)) sum += static_cast<unsigned>(byte);
  }
  LOCKSTEP_CHECK(sum < ~0u);
  const auto reader = weights::TensorReader::open(path);
  for (const auto& [name, entry] : file->entries) {
    std::vector<std::byte> part(entry.size / 2);
    LOCKSTEP_CHECK(reader->readRange(name, entry.size / 3, part).ok());
    const auto whole = file->bytes(entry).subspan(entry.size / 3, part.size());
    LOCKSTEP_CHECK(std::equal(part.begin(), part.end(), whole.begin()));
  }
  return 0;
}
