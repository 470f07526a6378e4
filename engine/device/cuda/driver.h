// The driver's functions this module calls, as a table: libcuda.so.1 is opened at run time.
#pragma once

#include <cuda.h>

#include <string>

#include "engine/base/status.h"
#include "engine/device/module.h"

namespace lockstep::device::cuda {

// cuda.h gives many of these names to later versions by a macro (cuMemAlloc is cuMemAlloc_v2); so
// do the fields and what is looked up.
#define LOCKSTEP_DRIVER_CALLS(CALL)                                                            \
  CALL(cuInit)                                                                                 \
  CALL(cuDriverGetVersion)                                                                     \
  CALL(cuGetErrorName)                                                                         \
  CALL(cuGetErrorString)                                                                       \
  CALL(cuDeviceGetCount) CALL(cuDeviceGet) CALL(cuDeviceGetName) CALL(cuDeviceGetAttribute)    \
      CALL(cuDeviceGetUuid) CALL(cuDeviceTotalMem) CALL(cuDevicePrimaryCtxRetain) CALL(        \
          cuDevicePrimaryCtxRelease) CALL(cuCtxSetCurrent) CALL(cuMemGetInfo) CALL(cuMemAlloc) \
          CALL(cuMemFree) CALL(cuMemAllocHost) CALL(cuMemFreeHost) CALL(cuMemcpyAsync)         \
              CALL(cuMemsetD8Async) CALL(cuModuleLoadData) CALL(cuModuleUnload)                \
                  CALL(cuModuleGetFunction) CALL(cuLaunchKernel) CALL(cuStreamCreate)          \
                      CALL(cuStreamCreateWithPriority) CALL(cuCtxGetStreamPriorityRange)       \
                          CALL(cuStreamDestroy) CALL(cuStreamSynchronize) CALL(cuStreamQuery)  \
                              CALL(cuStreamWaitEvent) CALL(cuStreamBeginCapture)               \
                                  CALL(cuStreamEndCapture) CALL(cuEventCreate)                 \
                                      CALL(cuEventDestroy) CALL(cuEventRecordWithFlags)        \
                                          CALL(cuEventElapsedTime) CALL(cuEventSynchronize)    \
                                              CALL(cuGraphInstantiateWithFlags)                \
                                                  CALL(cuGraphDestroy) CALL(cuGraphLaunch)     \
                                                      CALL(cuGraphExecDestroy)

struct Driver {
#define LOCKSTEP_FIELD(name) decltype(&::name) name = nullptr;
  LOCKSTEP_DRIVER_CALLS(LOCKSTEP_FIELD)
#undef LOCKSTEP_FIELD

  // "CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected".
  std::string text(CUresult result) const;
};

std::string versionText(int version);  // 13000: "13.0"
// of the toolkit's major version: what a later minor one makes runs on it
inline constexpr int kLeastDriver = 13000;

// The driver, looked at once: null, and `library.problem` says why, where it is missing or too old.
struct FoundDriver {
  const Driver* driver = nullptr;
  Library library;
  Status usable;  // of the driver and the devices it has
};
const FoundDriver& findDriver();

}  // namespace lockstep::device::cuda
