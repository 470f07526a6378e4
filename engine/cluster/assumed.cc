#include "engine/cluster/assumed.h"

#include <algorithm>

#include "engine/cluster/data_sheets.h"

namespace lockstep::cluster {
namespace {

// DGX A100 data sheet: one 200 Gbit/s HDR adapter per GPU
constexpr double kInfiniband = 25e9;
constexpr double kKernelSeconds = 3e-6;  // launch overhead in a captured graph

// A CUDA context with the kernels that training loads, and the workspace of matrix products that
// cuBLAS recommends for Hopper (cuBLAS library user's guide, 2024).
constexpr std::int64_t kContextBytes = 576 << 20, kWorkspaceBytes = 32 << 20;
// A communicator of NCCL, of which an axis of several ranks has one, has 4 MiB of buffer
// (NCCL_BUFFSIZE) for each of up to 32 channels, in which it receives (NCCL user guide,
// "Environment Variables").
constexpr std::int64_t kCommunicatorBytes = 128 << 20;

const DeviceSheet& sheetOf(const DeviceFigures& figures) {
  const DeviceSheet* known = findDeviceSheet(figures.model);
  return known == nullptr ? *findDeviceSheet(kAssumedGpu) : *known;
}

double peakOf(const DeviceSheet& sheet, std::string_view precision) {
  if (precision == "bf16") return sheet.bf16;
  if (precision == "fp16") return sheet.fp16;
  return precision == "tf32" ? sheet.tf32 : sheet.fp32;
}

}  // namespace

double reachedOfProducts(std::string_view precision) {
  if (precision == "fp16") return 0.66;
  return precision == "bf16" || precision == "tf32" ? 0.72 : 0.77;
}

DeviceRates assumedRates(const Device& device, std::string_view precision) {
  const DeviceFigures& known = device.figures;
  DeviceRates rates;
  if (device.kind == "cuda") {
    const DeviceSheet& sheet = sheetOf(known);
    rates = {reachedOfProducts(precision) * peakOf(sheet, precision),
             kReachedOfMemory * sheet.memoryBytesPerSecond, kKernelSeconds,
             known.memoryBytes > 0 ? known.memoryBytes : sheet.memoryBytes};
  }
  if (known.peakFlops > 0) rates.flopsPerSecond = reachedOfProducts(precision) * known.peakFlops;
  if (known.peakBytesPerSecond > 0)
    rates.bytesPerSecond = kReachedOfMemory * known.peakBytesPerSecond;
  return rates;
}

std::int64_t reservedBytes(const Cluster& cluster, const Device& device) {
  if (device.kind != "cuda") return 0;
  if (device.figures.reservedBytes > 0) return device.figures.reservedBytes;
  const std::vector<Axis> axes = cluster.mesh.groupAxes();
  const auto communicators =
      cluster.link.kind == "nccl"
          ? std::ranges::count_if(axes, [](const Axis& axis) { return axis.size > 1; })
          : 0;
  return kContextBytes + kWorkspaceBytes + communicators * kCommunicatorBytes;
}

Link assumedLink(std::string_view comm, bool betweenHosts) {
  if (comm == "gloo") return {"gloo", 1e-4, 2e9};             // loopback, or a 16 Gbit/s network
  if (comm != "nccl") return {std::string(comm), 5e-6, 5e9};  // host memory
  if (!betweenHosts) return assumedLinkInside(comm, {});
  return {"nccl", 2e-5, kReachedOfLinks * kInfiniband};
}

Link assumedLinkInside(std::string_view comm, const DeviceFigures& device) {
  if (comm != "nccl") return assumedLink(comm, false);
  return {"nccl", 2e-5, kReachedOfLinks * sheetOf(device).linkBytesPerSecond};
}

}  // namespace lockstep::cluster
