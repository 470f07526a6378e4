// Files below a folder whose names another machine or person has given.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/base/unique_fd.h"

namespace lockstep {

// The parts of a path between its slashes: "a//b" has three.
std::vector<std::string_view> partsOf(std::string_view path);

// Returns why `path` is not the path of a file below a folder: it is absolute, has a part "", "."
// or ".." or too many of them, is too long, or has a zero byte. Empty: it is one. Links are not
// looked at.
Message whyNotBelow(std::string_view path);

// Opens the folder that the path's last part is in. Missing folders are made with mode 0700. Does
// not follow symbolic links. `path` must be below: whyNotBelow().
Result<UniqueFd> openFolderOf(int root, std::string_view path);

}  // namespace lockstep
