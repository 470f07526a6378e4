// The GPUs of this node and what they do, as NVIDIA's management library tells it.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/run/v1/telemetry.pb.h"

namespace lockstep::agent {

struct GpuReading {
  std::vector<run::v1::GpuSample> gpus;
  // by process; where the driver knows this system's process numbers
  std::map<int, int> gpuOfProcess;
  std::string driver;   // "580.65.06"
  std::string problem;  // why there are none, or none that answer
};

// Asks the library on a thread of its own, as its calls may take seconds or hang: nobody waits for
// it longer than they say. The thread is there only while somebody asks, and without the library
// not at all; then nothing of the driver is held open, so that it can be replaced. Threads: any.
class GpuMonitor {
 public:
  // `file`: of the library.
  explicit GpuMonitor(std::string file);
  // A thread that hangs in the driver is left to itself.
  ~GpuMonitor();
  GpuMonitor(const GpuMonitor&) = delete;
  GpuMonitor& operator=(const GpuMonitor&) = delete;

  // What there is, asked now; after `limit` what is known. Looks for the library again where it was
  // missing.
  std::shared_ptr<const GpuReading> look(std::chrono::milliseconds limit);
  // What was asked last, and the wish for more: at a steady pace no older than the time between two
  // calls. Waits for nothing.
  std::shared_ptr<const GpuReading> latest();

 private:
  struct State;
  static void work(const std::shared_ptr<State>& state);
  static std::shared_ptr<const GpuReading> known(State& state);  // needs its mutex
  void begin();                                                  // needs its mutex
  std::shared_ptr<State> state_;
};

// Of this process; LOCKSTEP_NVML names another file than libnvidia-ml.so.1.
GpuMonitor& gpuMonitor();

}  // namespace lockstep::agent
