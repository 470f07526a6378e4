// The CUDA backend: f32, and products of bf16 or f16 factors, on a GPU. Kernels of our own
// (engine/backends/cuda), matrix products by what the device has for them. It knows the device by
// its interface alone, and what it has no kernel for it refuses by name when it is bound.
#pragma once

#include <cstdint>
#include <memory>

#include "engine/backends/backend.h"
#include "engine/device/device.h"

namespace lockstep::backends {

struct CudaOptions {
  // A convolution is a product on the columns of its image, of as many samples at once as have so
  // many bytes of these: they are read from the cache that they were written to, of which an A100
  // has 40 MiB and an H100 50.
  std::int64_t columnsBytes = std::int64_t{32} << 20;
};
std::unique_ptr<Backend> makeCuda(std::unique_ptr<device::Device> device,
                                  const CudaOptions& options = {});

}  // namespace lockstep::backends
