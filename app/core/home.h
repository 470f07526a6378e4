// The folder in which the studio and the command line keep what is theirs.
#pragma once

#include <string>

#include "engine/base/status.h"

namespace lockstep::app {

struct Home {
  std::string root;  // absolute
  std::string historyFolder() const { return root + "/history"; }
  std::string modelsFolder() const { return root + "/models"; }
  // Work folder of the i-th local agent, from 1.
  std::string localFolder(int index) const { return root + "/local/" + std::to_string(index); }
};

// `flag` (--home), else $LOCKSTEP_HOME, else $XDG_DATA_HOME/lockstep, else ~/.local/share/lockstep.
// Made (0700) where absent.
Result<Home> openHome(const std::string& flag = {});
// Where openHome() finds it, without making it. Errors: kFailedPrecondition.
Result<std::string> homeFolder(const std::string& flag = {});

Status makeFolders(const std::string& path, int mode);  // mkdir -p
// `path` from `folder` (or the current one); "~" and "~/x" are this user's home.
std::string absolutePath(const std::string& path, const std::string& folder);

}  // namespace lockstep::app
