// A libcuda.so.1 that has no GPU behind it: what it says of itself stands in the environment, and
// what would compute is not there to be called.
//   LOCKSTEP_FAKE_DRIVER   its version, GPUs and their compute capability: "13000 1 61"
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

constexpr int kNoDevice = 100;

struct Told {
  int version = 0, devices = 0, capability = 0;
};
Told told() {
  Told out;
  const char* text = std::getenv("LOCKSTEP_FAKE_DRIVER");
  if (text == nullptr ||
      std::sscanf(text, "%d %d %d", &out.version, &out.devices, &out.capability) != 3)
    std::abort();
  return out;
}

}  // namespace

#define LOCKSTEP_FAKE extern "C" __attribute__((visibility("default"))) int
LOCKSTEP_FAKE cuDriverGetVersion(int* version) {
  *version = told().version;
  return 0;
}
LOCKSTEP_FAKE cuInit(unsigned) { return told().devices > 0 ? 0 : kNoDevice; }
LOCKSTEP_FAKE cuGetErrorName(int, const char** name) {
  *name = "CUDA_ERROR_NO_DEVICE";
  return 0;
}
LOCKSTEP_FAKE cuGetErrorString(int, const char** text) {
  *text = "no CUDA-capable device is detected";
  return 0;
}
LOCKSTEP_FAKE cuDeviceGetCount(int* count) {
  *count = told().devices;
  return 0;
}
LOCKSTEP_FAKE cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return 0;
}
LOCKSTEP_FAKE cuDeviceGetName(char* name, int size, int) {
  std::snprintf(name, static_cast<std::size_t>(size), "Fake GPU");
  return 0;
}
LOCKSTEP_FAKE cuDeviceGetAttribute(int* value, int attribute, int) {
  constexpr int kMajor = 75, kMinor = 76;
  *value = attribute == kMajor   ? told().capability / 10
           : attribute == kMinor ? told().capability % 10
                                 : 1;
  return 0;
}
LOCKSTEP_FAKE cuDeviceGetUuid_v2(char* id, int device) {
  std::memset(id, device, 16);
  return 0;
}
LOCKSTEP_FAKE cuDeviceTotalMem_v2(std::size_t* bytes, int) {
  *bytes = std::size_t{1} << 30;
  return 0;
}

#define LOCKSTEP_ABSENT(name) \
  LOCKSTEP_FAKE name() { std::abort(); }
LOCKSTEP_ABSENT(cuDevicePrimaryCtxRetain)
LOCKSTEP_ABSENT(cuDevicePrimaryCtxRelease_v2)
LOCKSTEP_ABSENT(cuCtxSetCurrent)
LOCKSTEP_ABSENT(cuMemGetInfo_v2)
LOCKSTEP_ABSENT(cuMemAlloc_v2)
LOCKSTEP_ABSENT(cuMemFree_v2)
LOCKSTEP_ABSENT(cuMemAllocHost_v2)
LOCKSTEP_ABSENT(cuMemFreeHost)
LOCKSTEP_ABSENT(cuMemcpyAsync)
LOCKSTEP_ABSENT(cuMemsetD8Async)
LOCKSTEP_ABSENT(cuModuleLoadData)
LOCKSTEP_ABSENT(cuModuleUnload)
LOCKSTEP_ABSENT(cuModuleGetFunction)
LOCKSTEP_ABSENT(cuLaunchKernel)
LOCKSTEP_ABSENT(cuStreamCreate)
LOCKSTEP_ABSENT(cuStreamCreateWithPriority)
LOCKSTEP_ABSENT(cuCtxGetStreamPriorityRange)
LOCKSTEP_ABSENT(cuStreamQuery)
LOCKSTEP_ABSENT(cuStreamWaitEvent)
LOCKSTEP_ABSENT(cuStreamDestroy_v2)
LOCKSTEP_ABSENT(cuStreamSynchronize)
LOCKSTEP_ABSENT(cuStreamBeginCapture_v2)
LOCKSTEP_ABSENT(cuStreamEndCapture)
LOCKSTEP_ABSENT(cuEventCreate)
LOCKSTEP_ABSENT(cuEventDestroy_v2)
LOCKSTEP_ABSENT(cuEventRecordWithFlags)
LOCKSTEP_ABSENT(cuEventElapsedTime_v2)
LOCKSTEP_ABSENT(cuEventSynchronize)
LOCKSTEP_ABSENT(cuGraphInstantiateWithFlags)
LOCKSTEP_ABSENT(cuGraphDestroy)
LOCKSTEP_ABSENT(cuGraphLaunch)
LOCKSTEP_ABSENT(cuGraphExecDestroy)
