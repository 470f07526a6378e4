// The manifest of an agent package: no path of what is accepted leaves the package's folder.
#include "app/deploy/bundle.h"

#include "tests/fuzz/fuzz.h"

namespace lockstep::fuzz {

std::vector<std::string> seeds() {
  const std::string hash(64, 'a');
  return {"lockstep-bundle 1\nmachine x86_64\nglibc 2.36\nfile " + hash +
          " 1234 755 lockstep-agent\nfile " + hash + " 99 644 lib/libz.so.1\n"};
}

}  // namespace lockstep::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace lockstep;
  const auto bundle = app::parseManifest(std::string(fuzz::textOf(bytes, size)), "folder");
  if (!bundle.ok()) return 0;
  for (const app::BundleFile& file : bundle->files) {
    LOCKSTEP_CHECK(file.path[0] != '/' && file.path.find("..") != 0, "{}", file.path);
    LOCKSTEP_CHECK(file.mode >= 0 && file.mode <= 0777, "{:o}", file.mode);
  }
  LOCKSTEP_CHECK(bundle->totalBytes() >= bundle->manifest.size());
  return 0;
}
