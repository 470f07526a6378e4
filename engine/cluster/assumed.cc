#include "engine/cluster/assumed.h"

namespace lockstep::cluster {
namespace {

// NVIDIA A100 Tensor Core GPU data sheet (2021), A100 80GB SXM: dense matrix products without
// sparsity.
constexpr double kFp32 = 19.5e12, kTf32 = 156e12, kHalf = 312e12;
constexpr double kMemory = 2.039e12;  // bytes a second
constexpr double kNvlink = 300e9;     // in each direction: 600 GB/s in all
// DGX A100 data sheet: an HDR adapter of 200 Gbit/s for each GPU
constexpr double kInfiniband = 25e9;
constexpr std::int64_t kMemoryBytes = 80'000'000'000;
constexpr double kKernelSeconds = 3e-6;  // of a kernel in a captured graph

}  // namespace

DeviceRates assumedRates(std::string_view deviceKind, std::string_view precision) {
  if (deviceKind != "cuda") return {};
  const double flops = precision == "bf16" || precision == "fp16" ? kHalf
                       : precision == "tf32"                      ? kTf32
                                                                  : kFp32;
  return {kReachedShare * flops, kReachedShare * kMemory, kKernelSeconds, kMemoryBytes};
}

Link assumedLink(std::string_view comm, bool betweenHosts) {
  if (comm == "gloo") return {"gloo", 1e-4, 2e9};  // a loopback, or a network of 16 Gbit/s
  if (comm == "nccl") return {"nccl", 2e-5, kReachedShare * (betweenHosts ? kInfiniband : kNvlink)};
  return {std::string(comm), 5e-6, 5e9};  // a host's memory
}

}  // namespace lockstep::cluster
