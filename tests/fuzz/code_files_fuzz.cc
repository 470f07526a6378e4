// The files of a program, as they travel to the nodes: whatever the message says, nothing but the
// target folder appears, and no link in it leads out of it. Frames: a CodeFiles.
#include <filesystem>
#include <memory>

#include "agent/workload/code_folder.h"
#include "lockstep/spec/v1/code.pb.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/proto_mutator.h"

namespace lockstep::fuzz {
namespace {

namespace fs = std::filesystem;

void add(spec::v1::CodeFiles& code, const std::string& path, const std::string& data,
         const std::string& link) {
  spec::v1::CodeFile& file = *code.add_files();
  file.set_path(path);
  file.set_data(data);
  file.set_link(link);
  file.set_executable(data.size() % 2 == 1);
}

// The folder that the target folder is in.
const std::string& surroundings() {
  static const std::string folder = [] {
    std::string out = scratchFolder() + "/outer/inner";
    fs::create_directories(out);
    return fs::canonical(out).string();
  }();
  return folder;
}

// Returns how many files and folders are below the folder, following no link.
int countBelow(const fs::path& folder) {
  int out = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    out += entry.path().empty() ? 0 : 1;
  return out;
}

void checkLinks(const std::string& to) {
  for (const auto& entry : fs::recursive_directory_iterator(to)) {
    if (!entry.is_symlink()) continue;
    std::error_code failed;  // of a loop
    const std::string target = fs::weakly_canonical(entry.path(), failed).string();
    LOCKSTEP_CHECK(failed || (target + "/").starts_with(to + "/"), "{}", target);
  }
}

}  // namespace

std::vector<std::string> seeds() {
  spec::v1::CodeFiles files, links, outside;
  add(files, "main.py", "print()", "");
  add(files, "lib/a/b.py", "", "");
  add(files, "lib/a/c", "x", "");
  add(links, "a/b/c", "x", "");
  add(links, "a/up", "", "..");
  add(links, "d", "", "a/up/a/b");
  add(links, "e", "", "d/../b/c");
  add(links, "f", "", "e");
  add(outside, "a/b", "", "../..");
  add(outside, "a/b/c", "x", "");
  add(outside, "../x", "x", "");
  return {framesOf({files.SerializeAsString()}), framesOf({links.SerializeAsString()}),
          framesOf({outside.SerializeAsString()})};
}

std::unique_ptr<google::protobuf::Message> emptyMessage(std::size_t) {
  return std::make_unique<spec::v1::CodeFiles>();
}

}  // namespace lockstep::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace lockstep;
  const std::vector<std::string> frames = fuzz::splitFrames(fuzz::textOf(bytes, size));
  if (frames.empty()) return 0;
  const std::string code = fuzz::scratchFile("code", frames[0]);
  const std::string to = fuzz::surroundings() + "/to";
  const bool written = agent::writeCode(code, to).ok();
  LOCKSTEP_CHECK(std::filesystem::is_directory(to) == written);
  if (written) fuzz::checkLinks(to);
  std::filesystem::remove_all(to);
  // The scratch folder has the message, and the folders outer and inner.
  LOCKSTEP_CHECK(fuzz::countBelow(fuzz::scratchFolder()) == 3);
  return 0;
}
