// safetensors files, with and without checksums: every tensor of what is accepted lies within.
#include "engine/runtime/safetensors.h"

#include "tests/fuzz/fuzz.h"

namespace lockstep::fuzz {

std::vector<std::string> seeds() {
  const std::vector<TensorInfo> tensors = {{"params/a", DType::kF32, {2, 3}},
                                           {"b", DType::kU8, {5}},
                                           {"c", DType::kBf16, {}},
                                           {"empty", DType::kI64, {0, 4}}};
  const std::string data(24, '\x3f'), path = scratchFolder() + "/seed";
  std::vector<std::string> out;
  for (const auto sums : {runtime::Checksums::kNone, runtime::Checksums::kCrc32c}) {
    const auto bytes = [&](std::size_t i) -> Result<std::span<const std::byte>> {
      return std::as_bytes(std::span(data)).first(static_cast<std::size_t>(tensors[i].bytes()));
    };
    LOCKSTEP_CHECK(runtime::writeTensors(path, tensors, {{"step", "3"}}, bytes, sums).ok());
    out.push_back(fileBytes(path));
  }
  return out;
}

}  // namespace lockstep::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace lockstep;
  const auto file = runtime::readTensors(fuzz::scratchFile("tensors", fuzz::textOf(bytes, size)));
  if (!file.ok()) return 0;
  unsigned sum = 0;
  for (const auto& [name, entry] : file->entries) {
    LOCKSTEP_CHECK(elementCount(entry.shape) * static_cast<std::int64_t>(sizeOf(entry.dtype)) ==
                   static_cast<std::int64_t>(entry.size));
    for (const std::byte byte : file->bytes(entry)) sum += static_cast<unsigned>(byte);
  }
  LOCKSTEP_CHECK(sum < ~0u);
  return 0;
}
