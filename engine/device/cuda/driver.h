// Table of the CUDA driver functions this module calls; libcuda.so.1 is opened at run time.
#pragma once

#include <cuda.h>

#include <string>

#include "engine/base/status.h"
#include "engine/device/module.h"

namespace lockstep::device::cuda {

// cuda.h maps many of these names to versioned ones by macros (cuMemAlloc is cuMemAlloc_v2); the
// fields and the symbols looked up follow it.
// clang-format off
#define LOCKSTEP_DRIVER_CALLS(CALL)                                                                             \
  CALL(cuInit) CALL(cuDriverGetVersion) CALL(cuGetErrorName) CALL(cuGetErrorString)                             \
  CALL(cuDeviceGetCount) CALL(cuDeviceGet) CALL(cuDeviceGetName) CALL(cuDeviceGetAttribute)                     \
  CALL(cuDeviceGetUuid) CALL(cuDeviceTotalMem) CALL(cuDevicePrimaryCtxRetain) CALL(cuDevicePrimaryCtxRelease) CALL(cuCtxSetCurrent)   \
  CALL(cuMemGetInfo) CALL(cuMemAlloc) CALL(cuMemFree) CALL(cuMemAllocHost) CALL(cuMemFreeHost)                  \
  CALL(cuMemcpyAsync) CALL(cuMemsetD8Async)                                                                     \
  CALL(cuModuleLoadData) CALL(cuModuleUnload) CALL(cuModuleGetFunction) CALL(cuLaunchKernel)                    \
  CALL(cuStreamCreate) CALL(cuStreamCreateWithPriority) CALL(cuCtxGetStreamPriorityRange) CALL(cuStreamDestroy)  \
  CALL(cuStreamSynchronize) CALL(cuStreamQuery) CALL(cuStreamWaitEvent)                                         \
  CALL(cuStreamBeginCapture) CALL(cuStreamEndCapture)                                                           \
  CALL(cuEventCreate) CALL(cuEventDestroy) CALL(cuEventRecordWithFlags) CALL(cuEventElapsedTime)                \
  CALL(cuEventSynchronize)                                                                                      \
  CALL(cuGraphInstantiateWithFlags) CALL(cuGraphDestroy) CALL(cuGraphLaunch) CALL(cuGraphExecDestroy)
// clang-format on

struct Driver {
#define LOCKSTEP_FIELD(name) decltype(&::name) name = nullptr;
  LOCKSTEP_DRIVER_CALLS(LOCKSTEP_FIELD)
#undef LOCKSTEP_FIELD

  // "CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected".
  std::string text(CUresult result) const;
};

std::string versionText(int version);  // 13000: "13.0"
// the toolkit's major version: output of a later minor version runs on it
inline constexpr int kLeastDriver = 13000;

// The driver, probed once. `driver` is null where it is missing or too old; `library.problem` says
// why.
struct FoundDriver {
  const Driver* driver = nullptr;
  Library library;
  Status usable;  // status of the driver and of its devices
};
const FoundDriver& findDriver();

}  // namespace lockstep::device::cuda
