// The GPUs of this node and their load, from NVIDIA's management library (NVML).
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/message.h"
#include "lockstep/run/v1/telemetry.pb.h"

namespace lockstep::agent {

struct GpuReading {
  std::vector<run::v1::GpuSample> gpus;
  // process → GPU, if the driver knows the process ids of this system
  std::map<int, int> gpuOfProcess;
  std::string driver;  // "580.65.06"
  Message problem;     // why there are none, or none answers
};

// Calls the library on its own thread, since calls may take seconds or hang; callers wait no longer
// than their limit. The thread lives only while readings are requested, and only if the library
// exists. While idle nothing of the driver is open, so that the driver can be updated. Thread-safe.
class GpuMonitor {
 public:
  // `file` is the library's.
  explicit GpuMonitor(std::string file);
  // Leaks a thread that hangs in the driver.
  ~GpuMonitor();
  GpuMonitor(const GpuMonitor&) = delete;
  GpuMonitor& operator=(const GpuMonitor&) = delete;

  // Requests a reading and waits for it; after `limit` returns the last one. Looks for the library
  // again if it was missing.
  std::shared_ptr<const GpuReading> look(std::chrono::milliseconds limit);
  // Returns the last reading and requests the next. Called at a steady rate, the reading is no
  // older than one period. Does not block.
  std::shared_ptr<const GpuReading> latest();

 private:
  struct State;
  static void work(const std::shared_ptr<State>& state);
  static std::shared_ptr<const GpuReading> known(State& state);  // needs its mutex
  void begin();                                                  // needs its mutex
  std::shared_ptr<State> state_;
};

// Returns the monitor of this process. LOCKSTEP_NVML overrides the file libnvidia-ml.so.1.
GpuMonitor& gpuMonitor();

}  // namespace lockstep::agent
