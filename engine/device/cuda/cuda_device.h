// A GPU by its driver.
#pragma once

#include <memory>
#include <vector>

#include "engine/device/cuda/driver.h"

namespace lockstep::device::cuda {

// The module's program: one fat binary for each file of kernels, ended by null. Each has code of
// compute capability 7.5, 8.0 and 9.0, and what the driver translates for later ones.
extern "C" const void* const lockstepProgram[];
inline constexpr int kLeastMajor = 7, kLeastMinor = 5;

Properties propertiesOf(const Driver& driver, CUdevice device);
// `driver` outlives it. Errors: what the driver says.
Result<std::unique_ptr<Device>> openDevice(const Driver& driver, int ordinal,
                                           const void* const* program);

}  // namespace lockstep::device::cuda
