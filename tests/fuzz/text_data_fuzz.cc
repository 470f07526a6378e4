// Plain texts, plain, gzip and zstd: tokens are bytes, and every sample is within the file.
#include "engine/data/dataset.h"
#include "tests/fuzz/fuzz.h"

namespace lockstep::fuzz {

std::vector<std::string> seeds() {
  const std::string text = "In the beginning God created the heaven and the earth.\n";
  return {text, gzipOf(text), gzipOf(text) + gzipOf(text), zstdOf(text),
          zstdOf(text) + zstdOf(text)};
}

}  // namespace lockstep::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace lockstep;
  constexpr std::int64_t kTokens = 5;
  const std::string path = fuzz::scratchFile("text", fuzz::textOf(bytes, size));
  (void)data::inspectText(path);
  const auto text = data::openText({path, kTokens, 0.1, 0.9});
  if (!text.ok()) return 0;
  std::int32_t tokens[kTokens];
  for (std::int64_t i = 0; i < (*text)->size(); ++i)
    for (std::size_t field = 0; field < 2; ++field) {
      (*text)->read(i, field, reinterpret_cast<std::byte*>(tokens));
      for (const std::int32_t token : tokens) LOCKSTEP_CHECK(token >= 0 && token < 256);
    }
  return 0;
}
