// Paths of an agent: the workdir (durable, possibly on a shared file system) and its runtime folder
// (sockets and locks of this host, on a local disk, mode 0700, owned by this user).
#pragma once

#include <string>
#include <string_view>

#include "engine/base/status.h"

namespace lockstep::agent {

struct Workdir {
  std::string path;     // absolute; exists
  std::string runtime;  // exists, 0700, ours; short enough for socket names of 30 bytes
  // Per agent version; several versions may serve side by side.
  std::string agentSocket(std::string_view version) const { return agentFile(version, "sock"); }
  std::string agentLock(std::string_view version) const { return agentFile(version, "lock"); }
  // the version started last
  std::string newestAgent() const { return runtime + "/newest-agent"; }
  std::string agentFile(std::string_view version, std::string_view kind) const {
    return fmt::format("{}/agent-{}.{}", runtime, version.substr(0, 12), kind);
  }
  std::string runs() const { return path + "/runs"; }
  std::string programs() const { return path + "/programs"; }  // that were set up
};

// Longest socket path; sun_path has 108 bytes, and some tools need a margin.
inline constexpr std::size_t kMaxSocketPath = 100;

// Resolves a workdir and creates it: "~" and "~/x" are in this user's home; "" is ~/.lockstep.
Result<Workdir> openWorkdir(std::string_view path);

// Creates the folder with mode 0700 if absent. kPermissionDenied if it is another user's, a link,
// or its mode cannot be restricted.
Status makePrivateFolder(const std::string& path);
Status makeFolders(const std::string& path);  // mkdir -p, 0700 for what is made
// Returns whether it is usable as a file name: letters, digits, '.', '_', '-', not starting with
// '.', at most 128 characters.
bool isPlainName(std::string_view name);

std::string hostName();
std::string executablePath();  // of this process
// Returns the folder …/versions/<hash> that this process was started from; "" if it is not of a
// deployed version.
std::string versionFolder();
// Returns the content hash of the bundle this process was started from (…/versions/<hash>/…), else
// the first 12 digits of the executable's SHA-256, cached in `cacheFolder`.
std::string bundleVersion(const std::string& cacheFolder);

}  // namespace lockstep::agent
