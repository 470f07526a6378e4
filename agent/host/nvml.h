// NVIDIA's management library (NVML), opened at run time; queries start nothing on a GPU. Any call
// may take seconds if the driver wakes a GPU, or never return if one hangs.
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

// Critical driver errors (Xid) by GPU; they outlast a reopened library.
struct XidCount {
  std::uint64_t count = 0;
  int last = 0;
};
using XidCounts = std::map<int, XidCount>;

// Opened and initialised as long as it lives. Not thread-safe.
class Nvml {
 public:
  // Errors: kNotFound if there is no such library; kUnavailable if it lacks a function or the
  // driver does not answer.
  static Result<std::unique_ptr<Nvml>> open(const std::string& file, XidCounts& xids);
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  const std::string& driver() const { return driver_; }  // "580.65.06"
  // Queries all GPUs. The sample of a GPU that does not answer says why. On an error of driver or
  // library, reopen it.
  Status read();
  std::vector<run::v1::GpuSample> samples() const;
  // Returns the GPU that a process uses; of several, the first.
  const std::map<int, int>& gpuOfProcess() const { return gpuOfProcess_; }
  // A lost GPU may answer again after the library is reopened.
  bool anyProblem() const;

 private:
  struct Device;
  explicit Nvml(XidCounts& xids);
  Status start(const std::string& file);
  // Returns 0, or why the GPU or the driver does not answer.
  int readDevice(Device& device, bool all, bool pcie);
  void readLinkRates(Device& device, bool answers);
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
