// Inventory and load of a node, from /proc, /sys and the GPU driver.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "agent/host/gpus.h"
#include "agent/host/package_power.h"
#include "engine/base/clock.h"
#include "lockstep/node/v1/node.pb.h"
#include "lockstep/run/v1/telemetry.pb.h"

namespace lockstep::agent {

// Returns the cores this process may use: its affinity, bounded by the CPU quotas of its cgroups
// (v1 and v2).
int usableCores();
// Returns the bytes this process and its children can allocate: available memory, bounded by the
// memory limits of their cgroups (v1 and v2). -1: unknown.
std::int64_t memoryAvailable();
std::int64_t diskFree(const std::string& folder);  // bytes; -1: unknown
std::int64_t processMemory(int pid);               // resident bytes; 0: unknown
node::v1::Inventory inventory(const std::string& workdir);

// A file of /proc or /sys that is read repeatedly. It stays open, since opening costs more than
// reading.
class CachedProcFile {
 public:
  explicit CachedProcFile(std::string path) : path_(std::move(path)) {}
  ~CachedProcFile();
  CachedProcFile(CachedProcFile&& other) noexcept;
  CachedProcFile& operator=(CachedProcFile&&) = delete;
  // Returns the current content, valid until the next call; empty if it cannot be read.
  std::string_view read();

 private:
  std::string path_, text_;
  int fd_ = -1;
};

// Samples the load of a node. Rates are averages since the previous sample; the first has none. GPU
// readings are one sample old, since nothing waits for their driver. Not thread-safe.
class NodeSampler {
 public:
  explicit NodeSampler(std::string workdir, GpuMonitor& gpus = gpuMonitor(),
                       PackagePower power = PackagePower());
  // `ranks`: rank → process.
  run::v1::NodeSample sample(const std::map<int, int>& ranks);

 private:
  struct Busy {
    std::uint64_t busy = 0, total = 0;
  };
  struct ProcessCounts {                         // since the process started
    double cpu = 0, waiting = 0, throttled = 0;  // seconds
    double diskFaults = 0;
  };
  // State of a rank's process between samples.
  struct Process {
    explicit Process(int pid);
    CachedProcFile stat, memory, schedule, groups;
    std::string groupsText;  // content of `groups` that `throttles` belong to
    std::vector<CachedProcFile> throttles;
    ProcessCounts counts;
    bool known = false;  // `counts` is set
    // Returns the seconds that a CPU quota has throttled it.
    double throttledSeconds();
  };

  // Each fills its part of the sample; `seconds`: since the one before, 0: it is the first.
  void sampleCores(double seconds, run::v1::NodeSample& out);
  void sampleMemory(run::v1::NodeSample& out);
  void sampleNetwork(double seconds, run::v1::NodeSample& out);
  void sampleDisks(double seconds, run::v1::NodeSample& out);
  void sampleDiskBusy(double busiest, double seconds, run::v1::NodeSample& out);
  void sampleRanks(const std::map<int, int>& ranks, const GpuReading& gpus, double seconds,
                   run::v1::NodeSample& out);

  std::string workdir_;
  GpuMonitor& gpus_;
  PackagePower power_;
  CachedProcFile stat_{"/proc/stat"}, memory_{"/proc/meminfo"}, network_{"/proc/net/dev"},
      disks_{"/proc/diskstats"}, diskPressure_{"/proc/pressure/io"}, load_{"/proc/loadavg"};
  Nanoseconds before_ = 0;
  std::vector<Busy> cores_;  // [0]: all
  std::uint64_t netIn_ = 0, netOut_ = 0, loopback_ = 0, read_ = 0, written_ = 0;
  std::map<int, Process> processes_;  // by pid
  struct Disk {
    bool isWhole = false;
    std::uint64_t busy = 0;  // ms
  };
  std::map<std::string, Disk, std::less<>> wholeDisks_;  // by name
  std::uint64_t diskWaited_ = 0;                         // µs
};

}  // namespace lockstep::agent
