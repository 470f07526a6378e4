#include "agent/host/version_lease.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "agent/base/paths.h"
#include "agent/host/metrics.h"
#include "engine/base/file.h"
#include "engine/base/hash.h"
#include "engine/base/list_folder.h"

namespace lockstep::agent {
namespace {
constexpr Nanoseconds kRenewal = Nanoseconds{3600} * 1'000'000'000;

// Prefix of the leases of this process namespace on this boot.
std::string ownPrefix() {
  std::error_code ignored;
  // "pid:[4026531836]"
  const std::string space = std::filesystem::read_symlink("/proc/self/ns/pid", ignored).string();
  const std::size_t open = space.find('[');
  const std::string number =
      open == std::string::npos ? "0" : space.substr(open + 1, space.size() - open - 2);
  return fmt::format("{}.{}.", bootId(), number);
}

// Identifies this host across boots; "" where it cannot. A host name alone is no identity: hosts
// with equal names may share a home.
std::string hostIdentity() {
  const auto machine = readFile("/etc/machine-id", 4096);
  constexpr std::size_t kDigits = 32;  // "uninitialized" during a first boot
  if (!machine.ok() || machine->size() < kDigits) return {};
  // The id itself is not for others to read: see machine-id(5).
  return fmt::format("{} {}\n", hostName(), sha256Hex("lockstep lease " + *machine).substr(0, 16));
}

bool isDead(const std::filesystem::path& lease) {
  const std::string name = lease.filename().string();
  if (const std::string own = ownPrefix(); name.starts_with(own)) {
    const int pid = std::atoi(name.c_str() + own.size());
    return pid > 0 && kill(pid, 0) != 0 && errno == ESRCH;
  }
  if (name.starts_with(bootId() + ".")) return false;  // of a container beside this one
  const std::string own = hostIdentity();
  const auto host = readFile(lease.string(), 4096);
  return !own.empty() && host.ok() && *host == own;
}

}  // namespace

VersionLease::VersionLease(EventLoop& loop) {
  const std::string folder = versionFolder();
  if (folder.empty()) return;
  mkdir((folder + "/leases").c_str(), 0700);
  path_ = fmt::format("{}/leases/{}{}", folder, ownPrefix(), getpid());
  renew();
  loop.every(kRenewal, [this] { renew(); });
}

VersionLease::~VersionLease() {
  if (!path_.empty()) unlink(path_.c_str());
}

void removeDeadLeases() {
  const std::string folder = versionFolder();
  if (folder.empty()) return;
  for (const auto& version : listFolder(std::filesystem::path(folder).parent_path()))
    for (const auto& lease : listFolder(version / "leases"))
      if (isDead(lease)) unlink(lease.c_str());
}

void VersionLease::renew() const { (void)writeFileAtomically(path_, hostIdentity(), 0600); }

}  // namespace lockstep::agent
