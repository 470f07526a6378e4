// Entry points of the module.
#include "engine/device/module.h"

#include "engine/device/cuda/cuda_device.h"
#include "engine/device/cuda/driver.h"
#include "engine/device/cuda/groups.h"
#include "engine/device/cuda/matmul.h"

namespace lockstep::device::cuda {
namespace {

// Driver ordinals of the supported GPUs.
struct Devices {
  std::vector<int> ordinals;
  std::vector<Properties> properties;
  std::string others;  // unsupported devices, for messages
};
Devices devices(const Driver& driver) {
  Devices out;
  int count = 0;
  if (driver.cuDeviceGetCount(&count) != CUDA_SUCCESS) count = 0;
  for (int i = 0; i < count; ++i) {
    CUdevice device = 0;
    if (driver.cuDeviceGet(&device, i) != CUDA_SUCCESS) continue;
    Properties one = propertiesOf(driver, device);
    if (std::pair(one.major, one.minor) < std::pair(kLeastMajor, kLeastMinor)) {
      out.others += fmt::format("{}{} has {}.{}", out.others.empty() ? "" : ", ", one.name,
                                one.major, one.minor);
      continue;
    }
    out.ordinals.push_back(i);
    out.properties.push_back(std::move(one));
  }
  return out;
}

Survey surveyNode() {
  const FoundDriver& driver = findDriver();
  Survey out;
  out.libraries = {driver.library, cublasLtLibrary(), groupsLibrary()};
  out.usable = driver.usable;
  if (!out.usable.ok()) return out;
  Devices found = devices(*driver.driver);
  out.devices = std::move(found.properties);
  if (out.devices.empty()) {
    Error error =
        makeError(Code::kFailedPrecondition, "no GPU is of compute capability {}.{} or later",
                  kLeastMajor, kLeastMinor);
    error.why = found.others;
    out.usable = error;
    return out;
  }
  if (const Library& cublas = cublasLtLibrary(); !cublas.problem.empty()) {
    Error error = makeError(Code::kFailedPrecondition, "cuBLASLt cannot be used");
    error.why = cublas.problem;
    error.next =
        "install the CUDA toolkit's libraries, or name their folder in LOCKSTEP_CUDA_LIBRARIES";
    out.usable = error;
  }
  return out;
}

Result<std::unique_ptr<Device>> openNumber(int index) {
  const Survey node = surveyNode();
  LOCKSTEP_TRY(node.usable);
  const Devices found = devices(*findDriver().driver);
  if (index < 0 || index >= static_cast<int>(found.ordinals.size())) {
    Error error = makeError(Code::kFailedPrecondition, "there is no GPU {} on this node", index);
    error.why = message("it has {}", found.ordinals.size());
    error.next = message("give this node at most {} ranks (devices: count)", found.ordinals.size());
    return error;
  }
  return openDevice(*findDriver().driver, found.ordinals[static_cast<std::size_t>(index)],
                    lockstepProgram);
}

}  // namespace
}  // namespace lockstep::device::cuda

extern "C" __attribute__((visibility("default"))) const char lockstepDeviceContract[];
const char lockstepDeviceContract[] = LOCKSTEP_MODULE_CONTRACT;

extern "C" __attribute__((visibility("default"))) const lockstep::device::Module*
lockstepDeviceModule() {
  static constexpr lockstep::device::Module kModule{&lockstep::device::cuda::surveyNode,
                                                    &lockstep::device::cuda::openNumber};
  return &kModule;
}
