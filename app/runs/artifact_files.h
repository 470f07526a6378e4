// The files of a program that were fetched from the nodes of its run.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engine/base/status.h"

namespace lockstep::app {

struct ArtifactFile {
  std::string node;
  std::string path;  // below the program's folder there; any bytes
  std::int64_t bytes = 0;
  std::string sha256;
};

// What was fetched.
struct Artifacts {
  std::string folder;
  std::int64_t files = 0, bytes = 0;
  std::vector<Message> problems;  // what is not here, and why
  std::set<std::string> missing;  // nodes that may still have files
};

// What has come of fetching them, since the update before.
struct ArtifactsUpdate {
  std::int64_t bytesDone = 0, bytesTotal = 0;
  std::vector<ArtifactFile> files;
  std::optional<Artifacts> found;  // at the end
  std::optional<Error> error;      // at the end, if none was fetched
  bool over() const { return found || error; }
};

}  // namespace lockstep::app
