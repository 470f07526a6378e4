// The module: the one shared library that has CUDA code, opened at run time by what computes. No
// executable links CUDA, cuBLASLt or NCCL, so that every node can start an agent, and the module
// itself opens them, so that what is missing or too old is said with its name and version.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/device/device.h"

namespace lockstep::device {

// One of NVIDIA's libraries, as this node has it.
struct Library {
  std::string name;      // "driver", "cuBLASLt", "NCCL"
  std::string found;     // its version and file; "" where it is not to be used
  std::string expected;  // what the module was built with, or needs at least
  std::string problem;   // why it is not to be used
};

struct Survey {
  std::vector<Library> libraries;
  std::vector<Properties> devices;  // those that the module has code for
  // What keeps ranks from computing on a GPU here; ok where nothing does.
  Status usable;
};

// What the module exports, under the name kModuleEntry.
struct Module {
  Survey (*survey)();
  Result<std::unique_ptr<Device>> (*open)(int index);
};
inline constexpr const char* kModuleEntry = "lockstepDeviceModule";  // const Module* (*)()
// const char[]: what it was built by, which is looked at first: the headers that pass between it
// and this program, and the compiler.
inline constexpr const char* kModuleContract = "lockstepDeviceContract";

// lib/lockstep-cuda.so beside the executable, as in the bundle that is deployed;
// LOCKSTEP_CUDA_MODULE names another. Opened once and kept. Errors: kFailedPrecondition: it is not
// there, or of another build.
Result<const Module*> openModule();

// Never fails: what it cannot find out is a problem in the answer.
Survey survey();
// One of survey().devices. Errors: survey().usable; kFailedPrecondition where there are not so
// many.
Result<std::unique_ptr<Device>> open(int index);

}  // namespace lockstep::device
