// Assumed rates of devices and links before they are measured: a GPU by its data sheet, a CPU core,
// and links of either.
#pragma once

#include <cstdint>
#include <string_view>

#include "engine/cluster/mesh.h"

namespace lockstep::cluster {

// The reference GPU: its data sheet's peak rates times the fraction that training achieves.
inline constexpr std::string_view kAssumedGpu = "NVIDIA A100 SXM 80 GB";
inline constexpr double kReachedShare = 0.6;

struct DeviceRates {
  double flopsPerSecond = 5e10;
  double bytesPerSecond = 1.5e10;
  double launchSeconds = 5e-7;   // overhead of a kernel launch
  std::int64_t memoryBytes = 0;  // device memory; 0: uses host memory
};
// Returns the rates of a device kind with matmul operands of a precision ("fp32", "tf32", "bf16",
// "fp16", "fp64").
DeviceRates assumedRates(std::string_view deviceKind, std::string_view precision);
// Returns the link of a communicator kind, within a host or between hosts.
Link assumedLink(std::string_view comm, bool betweenHosts);

}  // namespace lockstep::cluster
