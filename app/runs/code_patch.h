// How the files of a program differ from their commit, as text.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "app/runs/git.h"
#include "engine/base/status.h"

namespace lockstep::app {

// Files of a program's code, without those that are left out.
struct CodeChanges {
  // Those in a commit that differ from it, relative to the folder of their repository, which is ""
  // or "folder/" below the root.
  std::map<std::string, std::vector<std::string>> tracked;
  std::vector<std::string> others;  // in no commit, or not compared; relative to the root
};

constexpr std::size_t kMostPatch = std::size_t{256} << 10;  // bytes, without the last note

// Returns what `git diff HEAD` prints for them, with paths relative to `root`, as UTF-8. Notes,
// whose lines begin with "# ", name files that are in no commit, and say where the text was cut.
// Errors as Git::run().
Result<std::string> codePatch(const Git& git, const std::string& root, const CodeChanges& changes);

// Returns the commit of a program's code as the comments of a run's resolved spec tell it; "":
// none.
std::string codeCommit(std::string_view specResolved);

struct ChangedFile {
  std::string path;
  int added = 0, removed = 0;  // lines; none of a file that is no text
  bool committed = true;       // it is in the commit
};
// The files in such a text, those of the commit first.
std::vector<ChangedFile> changedFiles(std::string_view patch);

}  // namespace lockstep::app
