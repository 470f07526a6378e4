#include "agent/base/open_files.h"

#include <sys/resource.h>

#include <algorithm>

namespace lockstep::agent {
namespace {

std::uint64_t originalLimit = 0;

}  // namespace

void raiseOpenFiles(std::uint64_t original) {
  constexpr rlim_t kWanted = 65536;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  originalLimit = original != 0 ? original : limit.rlim_cur;
  limit.rlim_cur = std::max(limit.rlim_cur, std::min(limit.rlim_max, kWanted));
  setrlimit(RLIMIT_NOFILE, &limit);
}

std::uint64_t originalOpenFiles() { return originalLimit; }

void restoreOpenFiles() {
  rlimit limit{};
  if (originalLimit == 0 || getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = std::min<rlim_t>(originalLimit, limit.rlim_max);
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace lockstep::agent
