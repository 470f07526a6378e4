// NVIDIA's management library, opened at run time: asking it starts nothing on a GPU. Any call may
// take seconds, where the driver wakes a GPU, or never return, where one hangs.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/clock.h"
#include "engine/base/status.h"
#include "lockstep/run/v1/telemetry.pb.h"

namespace lockstep::agent {

struct NvmlCalls;

// Critical errors that the driver told of, by GPU; they outlast the library that is opened anew.
struct XidCount {
  std::uint64_t count = 0;
  int last = 0;
};
using XidCounts = std::map<int, XidCount>;

// Open and started as long as it lives. Threads: one at a time.
class Nvml {
 public:
  // Errors: kNotFound, there is no such library; kUnavailable, it lacks what is needed, or the
  // driver does not answer.
  static Result<std::unique_ptr<Nvml>> open(const std::string& file, XidCounts& xids);
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  const std::string& driver() const { return driver_; }  // "580.65.06"
  // Asks all GPUs. One that does not answer has a sample that says why. An error is of the driver
  // or the library: it is to be opened anew.
  Status read();
  std::vector<run::v1::GpuSample> samples() const;
  // On which GPU a process computes; of several the first.
  const std::map<int, int>& gpuOfProcess() const { return gpuOfProcess_; }
  // A GPU that is lost may answer again once the library is opened anew.
  bool anyProblem() const;

 private:
  struct Device;
  explicit Nvml(XidCounts& xids);
  Status start(const std::string& file);
  int readDevice(Device& device, bool all, bool pcie);
  void readEvents();
  void readProcesses();
  std::string errorText(int result) const;

  void* library_ = nullptr;
  bool started_ = false;
  std::unique_ptr<NvmlCalls> calls_;
  std::string driver_;
  std::vector<Device> devices_;
  void* events_ = nullptr;
  XidCounts& xids_;
  std::map<int, int> gpuOfProcess_;
  Nanoseconds allAt_ = 0, pcieAt_ = 0;  // when what changes slowly, what is slow to ask was asked
  std::size_t pcieNext_ = 0;            // whose turn it is
};

}  // namespace lockstep::agent
