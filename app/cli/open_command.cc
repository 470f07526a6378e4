// `lockstep open`: the studio, at a place or with files.
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <vector>

#include "app/cli/commands.h"

namespace lockstep::app::cli {

// Becomes the studio that is installed beside this program, else the one in PATH.
int openCommand(const Globals& globals, const Arguments& arguments) {
  std::error_code ignored;
  const std::filesystem::path beside =
      std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path() / "lockstep-studio";
  const std::string program =
      access(beside.c_str(), X_OK) == 0 ? beside.string() : "lockstep-studio";
  std::vector<std::string> words{program, "--home", globals.home.root};
  if (!globals.sshConfig.empty()) words.insert(words.end(), {"--ssh-config", globals.sshConfig});
  words.push_back("--");
  const auto& places = arguments.words();
  words.insert(words.end(), places.begin(), places.end());
  std::vector<char*> raw;
  for (std::string& word : words) raw.push_back(word.data());
  raw.push_back(nullptr);
  execvp(program.c_str(), raw.data());
  Error error = systemError(errno, message("cannot start lockstep-studio"));
  error.next = message("install the studio, or build it with Qt 6 (see the README)");
  report(error, false);
  return exitCodeOf(error);
}

}  // namespace lockstep::app::cli
