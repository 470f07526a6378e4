// Files of tokens: NumPy's, llm.c's and those without a header.
#include "engine/data/dataset.h"
#include "engine/data/samples.h"
#include "tests/fuzz/fuzz.h"

namespace lockstep::fuzz {

std::vector<std::string> seeds() {
  std::string npy("\x93NUMPY\x01\x00\x3a\x00", 10);
  npy += "{'descr': '<u2', 'fortran_order': False, 'shape': (6,), } \n";
  npy.resize(10 + 0x3a, ' ');
  std::string llmC(1024, '\0');
  llmC.replace(0, 9, std::string("\x88\xd8\x34\x01\x01\0\0\0\x06", 9));
  const std::string tokens("\1\0\2\0\3\0\4\0\5\0\6\0", 12);
  return {npy + tokens, llmC + tokens, tokens};
}

}  // namespace lockstep::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace lockstep;
  constexpr std::int64_t kTokens = 2, kVocabulary = 7;
  const std::string path = fuzz::scratchFile("tokens.npy", fuzz::textOf(bytes, size));
  const data::TokenFiles files{path, kTokens, kVocabulary};
  const auto facts = data::inspectTokens(files);
  const auto set = data::openTokens(files);
  const auto reader = data::readTokenSamples(files);
  LOCKSTEP_CHECK(set.ok() == reader.ok());
  LOCKSTEP_CHECK(set.ok() == (facts.ok() && data::checkTokens(files, *facts).ok()));
  if (!set.ok()) return 0;
  LOCKSTEP_CHECK((*set)->size() == (*reader)->size() && (*set)->size() > 0);
  std::int32_t ids[kTokens];
  for (std::int64_t i = 0; i < (*set)->size(); ++i)
    for (const std::size_t field : {0, 1}) {
      (*set)->read(i, field, reinterpret_cast<std::byte*>(ids));
      for (const std::int32_t id : ids) LOCKSTEP_CHECK(id >= 0 && id < kVocabulary, "{}", id);
    }
  LOCKSTEP_CHECK((*set)->problem().ok() || !(*reader)->check({}).ok());
  return 0;
}
