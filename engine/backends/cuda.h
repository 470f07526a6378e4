// The CUDA backend: f32, and products of bf16 or f16 factors, on a GPU. Kernels of our own (engine/backends/cuda), matrix
// products by what the device has for them. It knows the device by its interface alone, and what it has no kernel for
// it refuses by name when it is bound.
#pragma once

#include <memory>

#include "engine/backends/backend.h"
#include "engine/device/device.h"

namespace lockstep::backends {

std::unique_ptr<Backend> makeCuda(std::unique_ptr<device::Device> device);

}  // namespace lockstep::backends
