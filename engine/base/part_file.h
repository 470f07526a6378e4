// Files that are written under a temporary name. Processes of several versions share a folder: one
// that starts removes what killed ones left there, but not what others are writing.
#pragma once

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <string>

#include "engine/base/unique_fd.h"

namespace lockstep {

// Marks the open file as being written until `fd` is closed.
inline bool holdPart(int fd) { return flock(fd, LOCK_EX | LOCK_NB) == 0; }

// Removes the file unless a process holds it.
inline void removeLeftPart(const std::string& path) {
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file && holdPart(file.get())) unlink(path.c_str());
}

}  // namespace lockstep
