// The cache of decoded data files: the page at a file's end, whose own hash is made right, so that
// what it says is reached.
#include "engine/data/decoded.h"

#include <filesystem>

#include "engine/base/hash.h"
#include "tests/fuzz/fuzz.h"

namespace lockstep::fuzz {
namespace {

constexpr std::size_t kPage = 4096, kHash = 64;

}  // namespace

// An input is a page's text.
std::vector<std::string> seeds() {
  std::vector<std::string> out;
  const std::string folder = scratchFolder() + "/cache";
  data::DecodedFolder cache(folder, {1 << 20, 0});
  LOCKSTEP_CHECK(
      data::inspectTable({scratchFile("table", "1,2,3\n0,4,5\n"), 2, 0, 0, 2}, &cache).ok());
  const std::string idx = std::string("\0\0\x08\x01\0\0\0\x02", 8) + "ab";
  LOCKSTEP_CHECK(data::inspectIdx(scratchFile("idx", idx), &cache).ok());
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    const std::string bytes = fileBytes(file.path().string());
    out.push_back(bytes.substr(bytes.size() - kPage, kPage - kHash));
  }
  return out;
}

}  // namespace lockstep::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace lockstep;
  std::string page(fuzz::textOf(bytes, size));
  page.resize(fuzz::kPage - fuzz::kHash, ' ');
  page += sha256Hex(page);
  const std::string path = fuzz::scratchFile("decoded", std::string(24, 'x') + page);
  const data::TableFile table{path, 2, 0, 0, 2};
  for (const std::string& decoding : {data::idxDecoding(), data::tableDecoding(table)}) {
    const auto opened = data::openDecoded(path, decoding);
    if (opened.ok()) LOCKSTEP_CHECK(opened->elements().size() == 24);
  }
  data::TableFile file = table;
  file.path = "/dev/null";
  file.decoded = path;
  if (const auto set = data::openTable(file); set.ok()) {
    float numbers[2];
    for (std::int64_t i = 0; i < (*set)->size(); ++i)
      (*set)->read(i, 0, reinterpret_cast<std::byte*>(numbers));
  }
  (void)data::openIdx({"/dev/null", "/dev/null", "", "", path, path}, 10);
  return 0;
}
