#include "agent/version_lease.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "agent/metrics.h"
#include "agent/paths.h"
#include "engine/base/file.h"

namespace lockstep::agent {
namespace {
constexpr Nanoseconds kRenewal = Nanoseconds{3600} * 1'000'000'000;
}  // namespace

VersionLease::VersionLease(EventLoop& loop) {
  const std::string folder = versionFolder();
  if (folder.empty()) return;
  std::error_code ignored;
  const std::string space = std::filesystem::read_symlink("/proc/self/ns/pid", ignored).string();  // "pid:[4026531836]"
  const std::size_t open = space.find('[');
  const std::string number = open == std::string::npos ? "0" : space.substr(open + 1, space.size() - open - 2);
  mkdir((folder + "/leases").c_str(), 0700);
  path_ = fmt::format("{}/leases/{}.{}.{}", folder, bootId(), number, getpid());
  renew();
  loop.every(kRenewal, [this] { renew(); });
}

VersionLease::~VersionLease() {
  if (!path_.empty()) unlink(path_.c_str());
}

void VersionLease::renew() const { (void)writeFileAtomically(path_, hostName() + "\n", 0600); }

}  // namespace lockstep::agent
