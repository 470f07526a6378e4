// Where things lie: the workdir (durable, perhaps on a shared file system) and its runtime folder
// (sockets and locks of this host, always on a local disk, mode 0700, owned by this user).
#pragma once

#include <string>
#include <string_view>

#include "engine/base/status.h"

namespace lockstep::agent {

struct Workdir {
  std::string path;     // absolute; exists
  std::string runtime;  // exists, 0700, ours; short enough for socket names of 30 bytes
  // Of the agent of one version: those of several live beside each other.
  std::string agentSocket(std::string_view version) const { return agentFile(version, "sock"); }
  std::string agentLock(std::string_view version) const { return agentFile(version, "lock"); }
  // version that was started last
  std::string newestAgent() const { return runtime + "/newest-agent"; }
  std::string agentFile(std::string_view version, std::string_view kind) const {
    return fmt::format("{}/agent-{}.{}", runtime, version.substr(0, 12), kind);
  }
  std::string runs() const { return path + "/runs"; }
};

// The longest socket path handed out; sun_path has 108 bytes and some tools want room.
inline constexpr std::size_t kMaxSocketPath = 100;

// "~" and "~/x" are this user's home; "" is ~/.lockstep. Makes what is missing.
Result<Workdir> openWorkdir(std::string_view path);

// Makes it with 0700 where absent. kPermissionDenied if it is another user's, a link, or open to
// others and not to be closed.
Status makePrivateFolder(const std::string& path);
Status makeFolders(const std::string& path);  // mkdir -p, 0700 for what is made
bool isLocalFilesystem(const std::string& path);
// Letters, digits, '.', '_', '-', not starting with '.', at most 128: usable as a file name.
bool isPlainName(std::string_view name);

std::string hostName();
std::string executablePath();  // of this process
// …/versions/<hash>, which this process was started from; "" where it is of no deployed version.
std::string versionFolder();
// The content hash of the bundle this process was started from (…/versions/<hash>/…), else the
// first 12 digits of the executable's SHA-256, remembered in `cacheFolder`.
std::string bundleVersion(const std::string& cacheFolder);

}  // namespace lockstep::agent
