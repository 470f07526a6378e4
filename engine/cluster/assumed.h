// Assumed rates of devices and links before they are measured: of a GPU by its data sheet, of a CPU
// core, and of links of either.
//
// Efficiency: of the peaks of a data sheet the shares are reached that the agent's self-test
// measured on an H100 SXM (tests/gpu/reports/report.json): of large products in each precision, of
// a copy in memory, and of a copy over PCI Express, which stands for all links. A step then takes
// as long as its operations or its memory traffic, whichever is longer (Williams, Waterman,
// Patterson: "Roofline: An Insightful Visual Performance Model for Multicore Architectures", 2009).
#pragma once

#include <cstdint>
#include <string_view>

#include "engine/cluster/mesh.h"

namespace lockstep::cluster {

// The model of a GPU whose model is not known.
inline constexpr std::string_view kAssumedGpu = "A100-SXM-80GB";
inline constexpr double kReachedOfMemory = 0.89, kReachedOfLinks = 0.87;
// Of products in a precision; tf32, which was not measured, as bf16.
double reachedOfProducts(std::string_view precision);

struct DeviceRates {
  double flopsPerSecond = 5e10;
  double bytesPerSecond = 1.5e10;
  double launchSeconds = 5e-7;  // overhead of a kernel launch
  std::int64_t memoryBytes =
      0;  // device memory that a rank alone on it can have; 0: uses host memory
  auto operator<=>(const DeviceRates&) const = default;
};
// Returns the rates of a device with matmul operands of a precision ("fp32", "tf32", "bf16",
// "fp16", "fp64").
DeviceRates assumedRates(const Device& device, std::string_view precision);
// Returns what the context, kernels' workspaces and NCCL of a rank of the cluster take of its GPU's
// memory.
std::int64_t reservedBytes(const Cluster& cluster, const Device& device);
// Returns the link of a communicator kind, within a host or between hosts, where each GPU has an
// adapter.
Link assumedLink(std::string_view comm, bool betweenHosts);
// Returns the link between the GPUs of one host, of which each is such a device.
Link assumedLinkInside(std::string_view comm, const DeviceFigures& device);

}  // namespace lockstep::cluster
