#include "tests/cluster/control_group.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace lockstep::test {
namespace {

bool write(const std::string& file, const std::string& text) {
  std::ofstream out(file);
  out << text << std::flush;
  return out.good();
}

}  // namespace

std::unique_ptr<ControlGroup> ControlGroup::make() {
  struct Place {
    const char* parent;
    const char* limit;  // a file of it that limits the CPU
    bool unified;
  };
  for (const Place& place : {Place{"/sys/fs/cgroup/cpu", "cpu.cfs_quota_us", false},
                             Place{"/sys/fs/cgroup/cpu,cpuacct", "cpu.cfs_quota_us", false},
                             Place{"/sys/fs/cgroup", "cpu.max", true}}) {
    if (place.unified) (void)write(std::string(place.parent) + "/cgroup.subtree_control", "+cpu");
    const std::string folder =
        std::string(place.parent) + "/lockstep-test-" + std::to_string(getpid());
    std::error_code error;
    if (!std::filesystem::create_directory(folder, error) || error) continue;
    if (access((folder + "/" + place.limit).c_str(), W_OK) == 0)
      return std::unique_ptr<ControlGroup>(new ControlGroup(folder, place.parent, place.unified));
    rmdir(folder.c_str());
  }
  return nullptr;
}

ControlGroup::~ControlGroup() {
  std::ifstream processes(folder_ + "/cgroup.procs");
  for (std::string process; std::getline(processes, process);)
    (void)write(parent_ + "/cgroup.procs", process);
  processes.close();
  for (int tries = 0; rmdir(folder_.c_str()) != 0 && tries < 50; ++tries) usleep(20'000);
}

bool ControlGroup::limitCpu(double cores) {
  constexpr int kPeriod = 100'000;  // µs
  const int quota = static_cast<int>(cores * kPeriod);
  if (unified_)
    return write(folder_ + "/cpu.max", std::to_string(quota) + " " + std::to_string(kPeriod));
  return write(folder_ + "/cpu.cfs_period_us", std::to_string(kPeriod)) &&
         write(folder_ + "/cpu.cfs_quota_us", std::to_string(quota));
}

bool ControlGroup::add(pid_t process) {
  return write(folder_ + "/cgroup.procs", std::to_string(process));
}

}  // namespace lockstep::test
