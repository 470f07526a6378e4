// The device module: the one shared library with CUDA code, opened at run time by the processes
// that compute. No executable links CUDA, cuBLASLt or NCCL, so an agent starts on every node; the
// module itself opens these libraries and reports what is missing or outdated, with name and
// version.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/device/device.h"

namespace lockstep::device {

// One of NVIDIA's libraries, as found on this node.
struct Library {
  std::string name;      // "driver", "cuBLASLt", "NCCL"
  std::string found;     // version and file; "" if it cannot be used
  std::string expected;  // the version the module was built with, or the minimum
  std::string problem;   // why it cannot be used
  std::string version;   // "2.27.3"; of the driver, the newest CUDA it runs: "13.0"; "": unknown
};

struct Survey {
  std::vector<Library> libraries;
  std::vector<Properties> devices;  // supported devices: those with code in the module
  // Why ranks cannot compute on a GPU here; ok if they can.
  Status usable;
};

// The module's entry points, exported as kModuleEntry.
struct Module {
  Survey (*survey)();
  Result<std::unique_ptr<Device>> (*open)(int index);
};
inline constexpr const char* kModuleEntry = "lockstepDeviceModule";  // const Module* (*)()
// const char[]: fingerprint of the shared headers and of the compiler the module was built with;
// checked before anything else.
inline constexpr const char* kModuleContract = "lockstepDeviceContract";

// Opens lib/lockstep-cuda.so beside the executable (as in the deployed bundle), or the file named
// by LOCKSTEP_CUDA_MODULE, once per process. Errors: kFailedPrecondition where it is missing or of
// another build.
Result<const Module*> openModule();

// Never fails: what cannot be determined is reported as a problem in the answer.
Survey survey();
// Opens one of survey().devices. Errors: survey().usable; kFailedPrecondition for an index out of
// range.
Result<std::unique_ptr<Device>> open(int index);

}  // namespace lockstep::device
