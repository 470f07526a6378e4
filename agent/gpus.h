// The GPUs of this node, by NVIDIA's management library, which is opened at run time: asking it starts nothing on a GPU.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::agent {

struct Gpu {
  std::string name;
  std::int64_t memoryBytes = 0;
};
struct Gpus {
  std::vector<Gpu> all;
  std::string driver;   // "580.65.06"
  std::string problem;  // why there are none that are known
};
// Looked at once; LOCKSTEP_NVML names another file than libnvidia-ml.so.1.
const Gpus& gpus();

}  // namespace lockstep::agent
