// The files of a program that workload.artifacts names.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/clock.h"
#include "engine/base/status.h"
#include "engine/base/unique_fd.h"

namespace lockstep::agent {

struct ArtifactFile {
  std::string path;  // below the program's folder
  std::int64_t bytes = 0;
  Nanoseconds modified = 0;  // wall clock
  Message problem;           // why it cannot be sent; empty: it can
};

// Finds the files in `folder` that match one of the patterns, each once, by path. A folder that
// matches stands for all files in it. A link to a file in the folder is that file; one that leaves
// the folder has a problem and is not followed. What is no file is left out. Errors:
// kResourceExhausted, more than 100 000 files.
Result<std::vector<ArtifactFile>> findArtifacts(const std::string& folder,
                                                const std::vector<std::string>& patterns);

// Opens a file below `folder` for reading. Errors: kInvalidArgument, it is not below, also by way
// of links; kNotFound; kFailedPrecondition, it was modified at another time.
Result<UniqueFd> openArtifact(const std::string& folder, const std::string& path,
                              Nanoseconds modified);

}  // namespace lockstep::agent
