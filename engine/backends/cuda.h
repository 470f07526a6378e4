// The CUDA backend: f32, and matmuls of bf16 or f16 operands. Uses its own kernels
// (engine/backends/cuda) and the device's matmul library. Depends only on the device interface. Ops
// without a kernel are rejected by name at bind time.
#pragma once

#include <cstdint>
#include <memory>

#include "engine/backends/backend.h"
#include "engine/device/device.h"

namespace lockstep::backends {

struct CudaOptions {
  // A convolution is a matmul on its im2col columns, for as many samples at a time as fit in this
  // many bytes, so that the columns are read back from cache (40 MiB on an A100, 50 MiB on an
  // H100).
  std::int64_t columnsBytes = std::int64_t{32} << 20;
};
std::unique_ptr<Backend> makeCuda(std::unique_ptr<device::Device> device,
                                  const CudaOptions& options = {});

}  // namespace lockstep::backends
