// The folder in which the studio and the command line store their files.
#pragma once

#include <string>

#include "engine/base/status.h"

namespace lockstep::app {

struct Home {
  std::string root;  // absolute
  std::string historyFolder() const { return root + "/history"; }
  std::string modelsFolder() const { return root + "/models"; }
  // Returns the folder of what a run has left here besides its history and model.
  std::string runFolder(const std::string& run) const { return root + "/runs/" + run; }
  std::string artifactsFolder(const std::string& run) const {
    return runFolder(run) + "/artifacts";
  }
  // Returns the work folder of the i-th local agent, from 1.
  std::string localFolder(int index) const { return root + "/local/" + std::to_string(index); }
};

// Opens the home folder: `flag` (--home), else $LOCKSTEP_HOME, else $XDG_DATA_HOME/lockstep, else
// ~/.local/share/lockstep. Creates it with mode 0700 if absent.
Result<Home> openHome(const std::string& flag = {});
// Returns the path that openHome() uses, without creating it. Errors: kFailedPrecondition.
Result<std::string> homeFolder(const std::string& flag = {});

Status makeFolders(const std::string& path, int mode);  // mkdir -p
// Resolves `path` relative to `folder`, or the current folder; "~" and "~/x" are in this user's
// home.
std::string absolutePath(const std::string& path, const std::string& folder);

}  // namespace lockstep::app
