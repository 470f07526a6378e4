// What a node is and how loaded it is, from /proc and /sys, its GPUs from the driver.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "agent/host/gpus.h"
#include "engine/base/clock.h"
#include "lockstep/node/v1/node.pb.h"
#include "lockstep/run/v1/telemetry.pb.h"

namespace lockstep::agent {

// Cores this process may use: its affinity, bounded by the cpu quota of its cgroups (v1 and v2).
int usableCores();
// Bytes this process and its children could take: what the kernel could give, bounded by the memory
// limits of their cgroups (v1 and v2). -1 unknown.
std::int64_t memoryAvailable();
std::int64_t diskFree(const std::string& folder);  // bytes; -1 unknown
std::int64_t processMemory(int pid);               // resident bytes; 0 unknown
node::v1::Inventory inventory(const std::string& workdir);

// A file of /proc or /sys read again and again: it stays open, as opening costs more than reading.
class CachedProcFile {
 public:
  explicit CachedProcFile(std::string path) : path_(std::move(path)) {}
  ~CachedProcFile();
  CachedProcFile(CachedProcFile&& other) noexcept;
  CachedProcFile& operator=(CachedProcFile&&) = delete;
  // What it says now, until the next call; empty where it cannot be read.
  std::string_view read();

 private:
  std::string path_, text_;
  int fd_ = -1;
};

// Rates are over the time since the sample before; the first has none. GPUs are as they were when
// the sample before was taken, as nothing waits for their driver. Threads: one at a time.
class NodeSampler {
 public:
  explicit NodeSampler(std::string workdir, GpuMonitor& gpus = gpuMonitor());
  // `ranks`: rank → process.
  run::v1::NodeSample sample(const std::map<int, int>& ranks);

 private:
  struct Busy {
    std::uint64_t busy = 0, total = 0;
  };
  struct ProcessTimes {
    double cpu = 0, waiting = 0, throttled = 0;
  };  // seconds, ever
  // What is kept of a rank's process from one sample to the next.
  struct Process {
    explicit Process(int pid);
    CachedProcFile stat, memory, schedule, groups;
    std::string groupsText;  // of which `throttles` are
    std::vector<CachedProcFile> throttles;
    ProcessTimes times;
    bool known = false;  // its times
    // Seconds, ever, that a quota has held it back.
    double throttledSeconds();
  };

  std::string workdir_;
  GpuMonitor& gpus_;
  CachedProcFile stat_{"/proc/stat"}, memory_{"/proc/meminfo"}, network_{"/proc/net/dev"},
      disks_{"/proc/diskstats"}, load_{"/proc/loadavg"};
  Nanoseconds before_ = 0;
  std::vector<Busy> cores_;  // [0]: all
  std::uint64_t netIn_ = 0, netOut_ = 0, loopback_ = 0, read_ = 0, written_ = 0;
  std::map<int, Process> processes_;                     // by pid
  std::map<std::string, bool, std::less<>> wholeDisks_;  // by name
};

}  // namespace lockstep::agent
