// What devices and links are taken to do until they have been measured: one GPU by its data sheet,
// one core of a processor, links of either.
#pragma once

#include <cstdint>
#include <string_view>

#include "engine/cluster/mesh.h"

namespace lockstep::cluster {

// The GPU that stands for all: its data sheet's figures times the share of them that training
// reaches.
inline constexpr std::string_view kAssumedGpu = "NVIDIA A100 SXM 80 GB";
inline constexpr double kReachedShare = 0.6;

struct DeviceRates {
  double flopsPerSecond = 5e10;
  double bytesPerSecond = 1.5e10;
  double launchSeconds = 5e-7;   // that each piece of work costs besides
  std::int64_t memoryBytes = 0;  // of its own; 0: it has its host's
};
// Of a device of the kind whose matmul operands have the precision ("fp32", "tf32", "bf16", "fp16",
// "fp64").
DeviceRates assumedRates(std::string_view deviceKind, std::string_view precision);
// Of a communicator's kind, among the ranks of one host or between hosts.
Link assumedLink(std::string_view comm, bool betweenHosts);

}  // namespace lockstep::cluster
