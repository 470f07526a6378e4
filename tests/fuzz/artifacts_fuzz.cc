// The files of a program that a client asks for: by patterns, and by a path. Nothing outside of the
// program's folder is listed as a file, or opened. Lines: the path, and patterns.
#include "agent/workload/artifacts.h"

#include <filesystem>

#include "tests/fuzz/fuzz.h"

namespace lockstep::fuzz {
namespace {

namespace fs = std::filesystem;

// Beside the folder is a file that is not the program's, to which a link leads.
const std::string& codeFolder() {
  static const std::string folder = [] {
    const std::string out = scratchFolder() + "/code";
    fs::create_directories(out + "/runs/1");
    fs::create_directories(scratchFolder() + "/other");
    const auto now = fs::file_time_type::clock::now();
    for (const char* name : {"code/model.pt", "code/runs/1/events", "other/key"})
      fs::last_write_time(scratchFile(name, "content"), now);
    fs::create_symlink("runs/1", out + "/newest");
    fs::create_symlink("../other", out + "/away");
    fs::create_symlink("../other/key", out + "/key");
    return fs::canonical(out).string();
  }();
  return folder;
}

// When all of the files were modified: one that is refused is so for its path.
Nanoseconds modified() {
  static const Nanoseconds time = [] {
    const Nanoseconds out = agent::findArtifacts(codeFolder(), {"model.pt"})->at(0).modified;
    LOCKSTEP_CHECK(agent::openArtifact(codeFolder(), "newest/events", out).ok());
    return out;
  }();
  return time;
}

}  // namespace

std::vector<std::string> seeds() {
  return {"model.pt\n*.pt\nruns/**\nnewest/ev*\n**\n", "newest/events\n**/*\nruns/[0-9]/?vents\n",
          "away/key\naway/*\nkey\n", "../other/key\n../*\n", "key\n\\*\n[!a]*\n**/**/**\n"};
}

}  // namespace lockstep::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace lockstep;
  constexpr std::size_t kMostPatterns = 20;
  std::string_view text = fuzz::textOf(bytes, size);
  const auto line = [&text] { return std::string(fuzz::takeUntil(text, '\n')); };
  const std::string& folder = fuzz::codeFolder();
  const auto file = agent::openArtifact(folder, line(), fuzz::modified());
  if (file.ok()) {
    const auto where =
        std::filesystem::read_symlink(fmt::format("/proc/self/fd/{}", file->get())).string();
    LOCKSTEP_CHECK(where.starts_with(folder + "/"), "{}", where);
  }
  std::vector<std::string> patterns;
  while (!text.empty() && patterns.size() < kMostPatterns) patterns.push_back(line());
  const auto found = agent::findArtifacts(folder, patterns);
  if (!found.ok()) return 0;
  for (const agent::ArtifactFile& one : *found) {
    const auto where = std::filesystem::canonical(folder + "/" + one.path).string();
    LOCKSTEP_CHECK(!one.problem.empty() || where.starts_with(folder + "/"), "{}", one.path);
  }
  return 0;
}
