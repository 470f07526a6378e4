// A GPU through the CUDA driver API.
#pragma once

#include <memory>
#include <vector>

#include "engine/device/cuda/driver.h"

namespace lockstep::device::cuda {

// The module's program: one fat binary for each kernel file, terminated by null. Each contains code
// for compute capability 7.5, 8.0 and 9.0, and PTX that the driver compiles for later ones.
extern "C" const void* const lockstepProgram[];
inline constexpr int kLeastMajor = 7, kLeastMinor = 5;

Properties propertiesOf(const Driver& driver, CUdevice device);
// `driver` must outlive it. Errors: those of the driver.
Result<std::unique_ptr<Device>> openDevice(const Driver& driver, int ordinal,
                                           const void* const* program);

}  // namespace lockstep::device::cuda
